// Keys of the whole page. No key decides anything here: a card's own keys live on the card (card.js).

/** `acts`: {stop, next, compose}; each returns nothing. */
export function listenForKeys(acts) {
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || event.defaultPrevented) return;
    const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
    if ((event.ctrlKey || event.metaKey) && event.key === ".") run(event, acts.stop);
    else if (event.altKey && event.code === "KeyW") run(event, acts.next);
    else if (plain && event.key === "/" && !writing(event.target)) run(event, acts.compose);
  });
}

const writing = (element) => element.matches?.("input, textarea, select, [contenteditable]");

function run(event, act) {
  event.preventDefault();
  act();
}
