// The one place where a string becomes HTML. Where the browser knows Trusted Types, everything else that tries
// (the form library writes labels that way) passes through here too, and loses all but plain inline marks.

import DOMPurify from "../vendor/dompurify/purify.js";

const TAGS = "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre s span strong table tbody td th thead tr ul".split(" ");
const MARKDOWN = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "class", "start"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  RETURN_DOM_FRAGMENT: true,
};
const LABEL = { ALLOWED_TAGS: ["b", "em", "strong", "code"], ALLOWED_ATTR: [] };

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.nodeName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer nofollow");
});

/** HTML made of Markdown or of coloured code, as a safe fragment: no images, no ids, links that leave in a new tab. */
export const safeFragment = (html) => DOMPurify.sanitize(html, MARKDOWN);

globalThis.trustedTypes?.createPolicy("default", { createHTML: (html) => (html === "" ? "" : String(DOMPurify.sanitize(html, LABEL))) });
