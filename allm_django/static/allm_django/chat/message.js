// One message: a person's in a bubble, the assistant's as plain Markdown, with the calls of its turn below.

import { CallGroup } from "./call.js";
import { attribute, fill, h, icon, text, visible } from "./dom.js";
import { copyButton, Growing } from "./markdown.js";
import { fullTime, said, t, timeOfDay } from "./words.js";

class MessageView {
  message = null;

  constructor(message, page) {
    this.page = page;
    this.head = h("header", { class: "message-head" }, h("h2", { class: "visually-hidden" }, t(`role_${message.role}`)));
    this.body = h("div", { class: "message-body" });
    this.element = h("article", { class: `message ${message.role}`, dataset: { message: message.id } }, this.head, this.body);
  }

  stamp(message) {
    return h("time", { datetime: message.created_at, title: fullTime(message.created_at) }, timeOfDay(message.created_at));
  }

  update(message) {
    if (message !== this.message) this.draw(message);
    this.message = message;
  }

  draw(message) {
    fill(this.body, visible(message.text));
  }

  tick() {}
}

class PersonMessage extends MessageView {
  constructor(message, page) {
    super(message, page);
    this.body.dir = "auto";
    this.head.append(this.stamp(message));
  }
}

class AssistantMessage extends MessageView {
  constructor(message, page) {
    super(message, page);
    this.text = new Growing();
    this.thinking = h("details", { class: "thinking", hidden: true }, h("summary", {}, t("thinking")), h("div", { class: "thinking-text", dir: "auto" }));
    this.broken = h("p", { class: "broken", hidden: true }, icon("warning"), h("span", {}));
    this.foot = h("footer", { class: "message-foot" }, copyButton(() => this.message.text), this.stamp(message));
    this.calls = new CallGroup(page);
    this.text.element.dir = "auto";
    this.body.append(this.thinking, this.text.element, this.broken);
    this.element.append(this.foot, this.calls.element);
  }

  update(message) {
    super.update(message);
    this.calls.update(this.page.callsOf(message));
  }

  draw(message) {
    this.text.update(message.text, !message.streaming);
    attribute(this.element, "aria-busy", message.streaming ? "true" : null);
    this.thinking.hidden = !message.thinking;
    text(this.thinking.lastChild, message.thinking ?? "");
    this.broken.hidden = !message.broken;
    text(this.broken.lastChild, said(message.broken) ?? "");
    this.foot.hidden = message.streaming || !message.text;
  }

  tick() {
    this.calls.tick();
  }
}

/** The view for a message's role. */
export function messageView(message, page) {
  if (message.role === "assistant") return new AssistantMessage(message, page);
  return message.role === "user" ? new PersonMessage(message, page) : new MessageView(message, page);
}
