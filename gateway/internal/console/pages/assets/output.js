// What a job says: the page shows what there was, and this appends what comes after that, each chunk once and as text.
const jobOutput = (() => {
  "use strict";
  // What is kept in the page.
  const mostChunks = 2000, mostCharacters = 1 << 20;
  // As OutputText of the page does: what a terminal obeys is left out, what is not seen is escaped.
  const terminal = /(?:\x1b\[|\x9b)[0-?]*[\x20-\x2f]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[\x20-\x2f]*[0-~]/g;
  const unseen = /[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
  const shown = (text) => text.replace(terminal, "").replace(/\r\n?/g, "\n").replace(unseen, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

  const card = () => document.querySelector("#output"), pane = () => document.querySelector("#output .output");
  const atEnd = (of) => of.scrollHeight - of.scrollTop - of.clientHeight < 30;
  const place = (id) => (id || "0.0").split(".").map(Number);
  const isAfter = (id, other) => {
    const [epoch, seq] = place(id), [otherEpoch, otherSeq] = place(other);
    return epoch > otherEpoch || epoch === otherEpoch && seq > otherSeq;
  };
  const note = (of, name) => {
    const made = document.createElement("p");
    made.className = "quiet " + name;
    made.textContent = of.dataset[name];
    return made;
  };

  // Chunks come in bursts: a layout for each burst.
  let waiting = [];
  const append = (chunk) => {
    const to = card();
    if (!to || !isAfter(chunk.id, to.dataset.last)) return;
    const claimed = to.dataset.last !== "" && place(chunk.id)[0] !== place(to.dataset.last)[0];
    to.dataset.last = chunk.id;
    waiting.push({ ...chunk, claimed });
    if (waiting.length === 1) setTimeout(show, 50);
    if (waiting.length >= 500) show();
  };
  const show = () => {
    const to = pane(), chunks = waiting;
    waiting = [];
    if (!to || chunks.length === 0) return;
    card().hidden = false;
    const follows = atEnd(to);
    for (const { text, stream, gap, claimed } of chunks) {
      let run = to.lastElementChild;
      if (claimed) to.append(note(to, "claimed"));
      if (gap) to.append(note(to, "gap"));
      if (claimed || gap || !run?.classList.contains("said-" + stream)) {
        run = document.createElement("pre");
        run.className = "said-" + stream;
        to.append(run);
      }
      const chunk = document.createElement("span");
      chunk.textContent = shown(text);
      run.append(chunk);
    }
    shorten(to, follows);
    if (follows) to.scrollTop = to.scrollHeight;
  };
  // The oldest chunks leave; what is read stays where it is.
  const shorten = (of, follows) => {
    const chunks = of.getElementsByTagName("span");
    let characters = of.textContent.length;
    if (chunks.length <= mostChunks && characters <= mostCharacters) return;
    const height = of.scrollHeight, top = of.scrollTop;
    while (chunks.length > mostChunks || characters > mostCharacters) {
      characters -= chunks[0].textContent.length;
      chunks[0].remove();
    }
    while (!of.firstElementChild.querySelector("span")) of.firstElementChild.remove();
    of.prepend(note(of, "cut"));
    if (!follows) of.scrollTop = top - (height - of.scrollHeight);
  };

  // A page that has no stream asks for what there is after its last chunk, when it hears that there is more.
  let asking = false;
  const catchUp = async (newest) => {
    const to = card();
    if (asking || !to || !newest) return;
    asking = true;
    try {
      for (let more = true; more && isAfter(newest, to.dataset.last);) {
        const answer = await fetch(to.dataset.path + "?after=" + (to.dataset.last || "0.0"));
        if (!answer.ok) return;
        const read = await answer.json();
        read.items.forEach(append);
        more = read.more && read.items.length > 0;
      }
    } catch {
      // The next update of the page asks again.
    } finally {
      asking = false;
    }
  };

  // An update of the page may move the pane, and that would scroll it.
  let top = 0, follows = true;
  document.addEventListener("htmx:before:swap", () => { const of = pane(); if (of) [top, follows] = [of.scrollTop, atEnd(of)]; });
  document.addEventListener("htmx:after:swap", () => { const of = pane(); if (of && of.scrollTop !== top) of.scrollTop = follows ? of.scrollHeight : top; });
  document.addEventListener("DOMContentLoaded", () => { const of = pane(); if (of) of.scrollTop = of.scrollHeight; });
  return { append, catchUp, last: () => card()?.dataset.last ?? "" };
})();
