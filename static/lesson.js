/* What a lesson does beyond links and forms: contents that follow the reader, keys, sliders that show their value,
   arrows that can be dragged, and the answer to a number beside the text. Without it the same pages work. */
"use strict";

(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (selector, within = document) => within.querySelector(selector);
  const lesson = one(".lesson");
  const aside = one("#why-aside");
  const close = one("#why-close");
  if (!lesson) return;

  /* ---- contents ---- */

  const sections = all("[data-section]");
  const marks = [...sections, ...all(".prose > section > h3[id]")];
  const entry = (id) => one(`.toc a[href="#${CSS.escape(id)}"]`);
  let current = null;

  const follow = () => {
    const line = window.innerHeight / 3;
    const above = (list) => list.filter((mark) => mark.getBoundingClientRect().top <= line).pop() || null;
    current = above(sections);
    const inner = above(marks);
    for (const link of all(".toc [aria-current]")) link.removeAttribute("aria-current");
    for (const item of all(".toc li.open")) item.classList.remove("open");
    for (const mark of new Set([current, inner])) {
      const link = mark && entry(mark.id);
      if (link) link.setAttribute("aria-current", "true");
    }
    const item = current && entry(current.id) && entry(current.id).closest("li");
    if (item) item.classList.add("open");
  };
  if (sections.length) {
    const watcher = new IntersectionObserver(follow, { rootMargin: "-33% 0px -66% 0px" });
    for (const mark of marks) watcher.observe(mark);
    follow();
  }

  /* ---- keys ---- */

  const typing = (target) => target.closest("input, textarea, select, [contenteditable]");

  const step = (by) => {
    const at = current ? sections.indexOf(current) : -1;
    const next = sections[Math.min(Math.max(at + by, 0), sections.length - 1)];
    if (!next) return;
    const heading = one("h2", next);
    history.replaceState(null, "", `#${next.id}`);
    heading.scrollIntoView({ block: "start" });
    heading.focus({ preventScroll: true });
    current = next;
  };

  const stepNumber = (by) => {
    const numbers = all(".prose .num").filter((n) => n.checkVisibility());
    let at = numbers.indexOf(document.activeElement);
    if (at < 0) {
      const below = numbers.findIndex((n) => n.getBoundingClientRect().top > 0);
      at = below < 0 ? 0 : below - (by > 0 ? 1 : 0);
    }
    const next = numbers[at + by];
    if (next) next.focus();
  };

  const shut = () => {
    if (!aside.classList.contains("open")) return false;
    aside.classList.remove("open");
    close.hidden = true;
    const chosen = one(".prose .num.on");
    if (chosen) chosen.focus({ preventScroll: true });
    return true;
  };

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") shut();
    if (event.shiftKey || typing(event.target)) return;
    if (event.key === "n") step(1);
    else if (event.key === "p") step(-1);
    else if (event.key === ".") stepNumber(1);
    else if (event.key === ",") stepNumber(-1);
  });

  /* ---- sliders: the range moves the number beside it, which is what the form sends ---- */

  document.addEventListener("input", (event) => {
    const input = event.target;
    const form = input.closest && input.closest(".controls");
    if (!form) return;
    if (input.dataset.pair) {
      form.elements[input.dataset.pair].value = input.value;
      form.dispatchEvent(new Event("live"));
    } else if (input.type === "number") {
      const range = one(`[data-pair="${input.name}"]`, form);
      if (range) range.value = input.value;
    }
  });

  /* ---- arrows: a grip dragged sets two numbers of the form ---- */

  let grip = null;

  const drag = (event) => {
    const part = document.getElementById(grip.part);
    const svg = part && one("svg[data-drag]", part);
    if (!svg) return;
    const box = svg.getBoundingClientRect();
    const reach = Number(svg.dataset.reach);
    const inner = 150 / 160;
    const place = (share) => Math.max(-reach, Math.min(reach, Math.round((share * 2 - 1) / inner * reach * 10) / 10));
    const form = one(".controls", part);
    const set = (name, value) => {
      form.elements[name].value = value;
      const range = one(`[data-pair="${name}"]`, form);
      if (range) range.value = value;
    };
    set(`${grip.name}x`, place((event.clientX - box.left) / box.width));
    set(`${grip.name}y`, -place((event.clientY - box.top) / box.height));
    form.dispatchEvent(new Event("live"));
  };

  document.addEventListener("pointerdown", (event) => {
    const found = event.target.closest("[data-grip]");
    if (!found) return;
    event.preventDefault();
    grip = { name: found.dataset.grip, part: found.closest(".live-part").id };
  });
  document.addEventListener("pointermove", (event) => { if (grip) drag(event); });
  document.addEventListener("pointerup", (event) => { if (grip) { drag(event); grip = null; } });

  /* ---- links inside drawings, which HTMX leaves alone: a number opens beside, all else changes its own part ---- */

  document.addEventListener("click", (event) => {
    const link = event.target.closest(".live-part svg a[href]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const url = link.getAttribute("href");
    const isNumber = new URL(url, location.href).searchParams.has("at");
    htmx.ajax("GET", url, { target: isNumber ? "#why" : `#${link.closest(".live-part").id}`, swap: "outerHTML" });
  });

  /* ---- the answer: where it is, what it is about, how to close it ---- */

  const RUN = ["model", "text", "target", "bos", "eta", "optimizer", "steps", "set"];
  const EXPLORER = [...RUN, "at", "trail", "order", "offset", "nudge"];
  const runOf = (url) => RUN.map((name) => url.searchParams.get(name) || "").join("\n");

  const opened = (path) => {
    const url = new URL(path, location.href);
    url.pathname = one("#why-open").pathname; // the explorer, wherever the app is served
    const full = new URL(url); // without what belongs to an embed
    for (const name of [...full.searchParams.keys()]) if (!EXPLORER.includes(name)) full.searchParams.delete(name);
    one("#why-open").href = full.pathname + full.search;
    const at = url.searchParams.get("at");
    for (const number of all(".prose .num.on, .prose a.on")) number.classList.remove("on");
    for (const number of all(".prose a.num")) {
      const its = new URL(number.href, location.href);
      if (its.searchParams.get("at") === at && runOf(its) === runOf(url)) number.classList.add("on");
    }
    const parents = new Set(all("#why a[href*='at=']").filter((link) => !link.closest(".ends, .trail, .links, .tabs")).map((link) => new URL(link.href, location.href).searchParams.get("at")));
    for (const number of all(".prose .from")) number.classList.remove("from");
    for (const number of all(".prose .all a.num")) {
      const its = new URL(number.href, location.href);
      if (parents.has(its.searchParams.get("at")) && runOf(its) === runOf(url)) number.classList.add("from");
    }
    const here = new URL(location.href);
    const own = new URLSearchParams(new FormData(one("#go") || one("form[id^=go-]")));
    const same = RUN.every((name) => (url.searchParams.get(name) || "") === (own.get(name) || ""));
    if (same && at) {
      for (const [name, value] of own) here.searchParams.set(name, value);
      here.searchParams.set("at", at);
      history.replaceState(history.state, "", here);
    }
    const sheet = window.matchMedia("(max-width: 64rem)").matches;
    aside.classList.toggle("open", sheet);
    close.hidden = !sheet;
    aside.scrollTop = 0;
    requestAnimationFrame(() => { aside.scrollTop = 0; });
    const chosen = sheet && one(".prose .num.on");
    if (chosen && chosen.getBoundingClientRect().bottom > window.innerHeight * 0.28) {
      window.scrollBy(0, chosen.getBoundingClientRect().top - window.innerHeight * 0.14); // above the sheet
    }
    aside.setAttribute("tabindex", "-1");
  };

  close.addEventListener("click", shut);

  /* ---- after a swap ---- */

  let kept = null; // what had the focus inside a live part that is being replaced

  const key = (element) => {
    if (element.name) return `[name="${CSS.escape(element.name)}"]`;
    if (element.dataset.pair) return `[data-pair="${CSS.escape(element.dataset.pair)}"]`;
    return "";
  };

  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target.closest && event.detail.target.closest(".live-part");
    const focused = document.activeElement;
    kept = null;
    if (part && focused && event.detail.target.contains(focused)) {
      const links = all("a, button", part);
      kept = { part: part.id, key: key(focused), n: links.indexOf(focused) };
    }
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    const xhr = event.detail.xhr;
    if (!xhr || xhr.status >= 400) return;
    const path = event.detail.requestConfig ? event.detail.pathInfo.finalRequestPath : "";
    const notice = one("#notice");
    if (notice) notice.textContent = "";
    if (event.detail.target.id === "why" || one("#why") === event.target) opened(path);
    else if (lesson.classList.contains("by-itself") && path) history.replaceState(history.state, "", path);
    const part = kept && document.getElementById(kept.part);
    if (part) {
      const again = (kept.key && one(kept.key, part)) || all("a, button", part)[kept.n];
      if (again) again.focus({ preventScroll: true });
      kept = null;
    }
  });
})();
