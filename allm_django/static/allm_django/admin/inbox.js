// The list of what waits, kept up by the inbox's socket: says how many are new, and marks rows that were settled.
// Nothing moves by itself: what a person is about to choose stays where it is.

import { Socket } from "../chat/socket.js";

const PAUSE = 2000; // between two looks at the list, however often it is nudged
const news = document.getElementById("allm-news");
const idsIn = (root) => new Set([...root.querySelectorAll("[data-call]")].map((mark) => mark.dataset.call));

let looking = false;
let again = false;

async function look() {
  if (looking) {
    again = true;
    return;
  }
  looking = true;
  again = false;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.ok && !answer.redirected) compare(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // the next nudge or reconnect looks again
  }
  setTimeout(() => {
    looking = false;
    if (again) look();
  }, PAUSE);
}

function compare(fresh) {
  const total = Number(fresh.getElementById("allm-news")?.dataset.total);
  if (Number.isNaN(total)) return;
  const there = idsIn(fresh);
  let gone = 0;
  for (const mark of document.querySelectorAll("[data-call]")) {
    if (there.has(mark.dataset.call)) continue;
    gone += 1;
    settle(mark);
  }
  tell(total - Number(news.dataset.total) + gone);
}

function settle(mark) {
  const row = mark.closest("tr");
  if (row.classList.contains("allm-gone")) return;
  row.classList.add("allm-gone");
  for (const input of row.querySelectorAll("input")) {
    input.checked = false;
    input.disabled = true;
  }
  row.querySelector(".field-state")?.replaceChildren(news.dataset.gone);
}

function tell(fresh) {
  if (fresh < 1) return;
  const words = fresh === 1 ? news.dataset.one : news.dataset.many.replace("{n}", String(fresh));
  if (news.textContent.startsWith(words)) return;
  const link = document.createElement("a");
  link.href = location.href;
  link.textContent = news.dataset.reload;
  news.replaceChildren(`${words} `, link);
  news.hidden = false;
}

if (news) new Socket({ path: news.dataset.socket, hello: () => ({ type: "hello" }), onFrame: ({ type }) => type === "inbox" && look(), onState: (state) => state === "open" && look() });
