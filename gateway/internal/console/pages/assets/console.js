// What needs a script: live updates, times in the reader's zone, keys. Everything else works without.
(() => {
  "use strict";
  const $ = (selector, from = document) => from.querySelector(selector);

  // Times: the words are relative and go on, or those of a clock; the title is exact. Both are in the reader's zone.
  const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const minute = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const clocks = {
    "": new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", second: "2-digit", ...minute }),
    minute: new Intl.DateTimeFormat(undefined, minute),
    hour: new Intl.DateTimeFormat(undefined, { weekday: "short", ...minute }),
  };
  const words = (at) => {
    const seconds = Math.abs(at - Date.now()) / 1000;
    if (seconds < 1) return "now";
    const [n, unit] = seconds < 60 ? [seconds, "s"] : seconds < 3600 ? [seconds / 60, "min"] : seconds < 172800 ? [seconds / 3600, "h"] : [seconds / 86400, "d"];
    const text = Math.floor(n) + "\u00a0" + unit;
    return at > Date.now() ? "in " + text : text + " ago";
  };
  const times = () => {
    for (const element of document.querySelectorAll("time[datetime]")) {
      const at = Date.parse(element.dateTime);
      const text = "clock" in element.dataset ? clocks[element.dataset.clock].format(at) : words(at), title = exact.format(at);
      if (element.textContent !== text) element.textContent = text;
      if (element.title !== title) element.title = title;
    }
  };

  // On a phone the links of the pages scroll: the one of this page is seen.
  const showHere = () => {
    const here = $(".pages a[aria-current]"), row = $(".pages");
    if (!here || row.scrollWidth <= row.clientWidth) return;
    const at = here.getBoundingClientRect(), seen = row.getBoundingClientRect();
    if (at.left < seen.left || at.right > seen.right) row.scrollLeft += (at.left + at.right - seen.left - seen.right) / 2;
  };
  showHere();
  addEventListener("resize", showHere);

  // Live updates: the part #live is asked for again while the page is seen, and nobody is in a form of it.
  let asking = false, failures = 0, following = "", turn = new AbortController(), streams = false;
  const busy = () => {
    const live = $("#live"), at = document.activeElement;
    return !live || live.contains(at) && /^(INPUT|SELECT|TEXTAREA)$/.test(at.tagName) || $("dialog[open]") || String(getSelection()) !== "";
  };
  const refresh = async () => {
    if (asking || document.hidden || busy()) return;
    asking = true;
    try {
      await htmx.ajax("GET", location.pathname + location.search, { source: "#live", target: "#live", select: "#live", swap: "outerMorph" });
    } finally {
      asking = false;
      times();
      follow();
      if (!streams) jobOutput.catchUp($("#live")?.dataset.output);
    }
  };
  const settle = (ok) => {
    failures = ok ? 0 : failures + 1;
    let shown = $(".offline");
    if (failures > 1 && !shown) {
      shown = document.createElement("p");
      shown.className = "offline";
      shown.setAttribute("role", "status");
      shown.textContent = "No answer. What you see is not current.";
      document.body.append(shown);
    } else if (ok && shown) {
      shown.remove();
    }
    document.body.classList.toggle("stale", failures > 1);
  };
  document.addEventListener("htmx:after:request", (e) => settle(!(e.detail?.ctx?.response?.status >= 400)));
  document.addEventListener("htmx:error", () => settle(false));
  // A refusal must not take the place of what is there.
  document.addEventListener("htmx:before:swap", (e) => { if (e.detail?.ctx?.response?.status >= 400) e.preventDefault(); });
  let due = 0;
  setInterval(() => {
    const live = $("#live")?.dataset;
    if (!live?.live || document.hidden) return;
    const every = live.events && !streams ? 5000 : Number(live.live);
    due += 1000;
    if (due >= every * Math.min(1 + failures * failures, 20)) {
      due = 0;
      refresh();
    }
  }, 1000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { due = Infinity; times(); } follow(); });

  // A job's page follows its events. Over HTTP/1.1 a browser has six connections to a server, and a stream takes one: so
  // one page of all that are seen has the lock, and a stream. It tells the pages of the same job; others read more often.
  const channel = new BroadcastChannel("forgequeue-events");
  channel.onmessage = (e) => { if (e.data === $("#live")?.dataset.events) refresh(); };
  const follow = () => {
    const path = !document.hidden && $("#live")?.dataset.events || "";
    if (path === following) return;
    following = path;
    turn.abort();
    if (!path || !navigator.locks) return; // there are locks over https and on localhost
    turn = new AbortController();
    const { signal } = turn;
    navigator.locks.request("forgequeue-events", { signal }, () => new Promise((leave) => {
      const last = jobOutput.last(), events = new EventSource(path + (last && "?after=" + last));
      streams = true;
      signal.onabort = () => { events.close(); streams = false; leave(); };
      const changed = () => { channel.postMessage(path); refresh(); };
      const over = () => {
        signal.onabort();
        changed();
        setTimeout(() => { if (!signal.aborted) { following = ""; follow(); } }, 10000 + 5000 * Math.random());
      };
      events.addEventListener("output", (e) => jobOutput.append(JSON.parse(e.data)));
      let known = "";
      events.addEventListener("job", (e) => {
        const before = known;
        known = JSON.stringify({ ...JSON.parse(e.data), output: null }); // more output is on the page already
        if (before !== "" && before !== known) changed();
      });
      for (const name of ["end", "again"]) events.addEventListener(name, over);
      events.onerror = () => { if (events.readyState === EventSource.CLOSED) over(); }; // refused
    })).catch(() => {}); // it left before its turn came
  };

  // A second click sends no form again: the answer to the first one is shown, with a key that was made.
  document.addEventListener("submit", (e) => {
    const { method, dataset } = e.target;
    if (method !== "post") return;
    if (Date.now() - (dataset.sent ?? 0) < 2000) e.preventDefault();
    else dataset.sent = Date.now();
  });

  // Keys.
  let g = 0;
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || e.target.isContentEditable || $("dialog[open]")) return;
    if (e.key === "/" && $("#q")) {
      e.preventDefault();
      $("#q").focus();
    } else if (e.key === "?") {
      $("#keys")?.showModal();
    } else if (e.key === "g") {
      g = Date.now();
    } else if (Date.now() - g < 1500) {
      g = 0;
      $(`a[data-keys="g ${CSS.escape(e.key)}"]`)?.click();
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    times();
    setInterval(times, 5000);
    follow();
    // A note is of the last action, not of the page: a reload or a bookmark does not repeat it.
    const url = new URL(location);
    if (url.searchParams.has("note")) {
      url.searchParams.delete("note");
      history.replaceState(null, "", url);
    }
    // The chosen states of a list of jobs count at once.
    for (const box of document.querySelectorAll(".chips input")) box.addEventListener("change", () => box.form.requestSubmit());
    $(".pages [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    $("form[data-submit]")?.requestSubmit();
  });
})();
