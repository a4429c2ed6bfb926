/* What links and forms alone cannot do: arrow keys among the numbers, going back along the trail, focus that stays
   where it was after a part of the page was swapped, and closing the menu. Without it every page still works. */
"use strict";

(() => {
  const root = document.documentElement;
  root.classList.add("js");

  const one = (selector, within = document) => within.querySelector(selector);
  const typing = (target) => target.closest("input, textarea, select, [contenteditable]");

  /* ---- arrow keys: the numbers of a table by row and column ---- */

  const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const PAGES = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
  const table = () => [...document.querySelectorAll("#values .grid tr")]
    .map((row) => [...row.querySelectorAll("td > .num")]).filter((row) => row.length);
  let landing = null; // where focus goes after the page of numbers that an arrow key asked for

  const whereIs = (rows, cell) => {
    const r = rows.findIndex((row) => row.includes(cell));
    return [r, r < 0 ? -1 : rows[r].indexOf(cell)];
  };

  const focusCell = (rows, r, c) => {
    const row = rows[Math.min(Math.max(r, 0), rows.length - 1)];
    if (row) row[Math.min(Math.max(c, 0), row.length - 1)].focus();
  };

  const move = (event, key) => {
    const rows = table();
    const [r, c] = whereIs(rows, event.target);
    if (r < 0) return;
    event.preventDefault();
    const [nextR, nextC] = [r + MOVES[key][0], c + MOVES[key][1]];
    if (rows[nextR] && rows[nextR][nextC]) {
      rows[nextR][nextC].focus();
      return;
    }
    const page = one(`#values [data-page="${PAGES[key]}"]`);
    if (!page) return;
    // The first row or column of the next page, the last of the one before.
    landing = { ArrowUp: [Infinity, c], ArrowDown: [0, c], ArrowLeft: [r, Infinity], ArrowRight: [r, 0] }[key];
    page.click();
  };

  /* One number of a table is in the tab order, the arrows reach the others. */
  const rove = (cell) => {
    for (const row of table()) for (const other of row) other.tabIndex = -1;
    const first = cell || one("#values .grid .num[aria-current]") || one("#values .grid .num");
    if (first) first.tabIndex = 0;
  };

  document.addEventListener("focusin", (event) => {
    if (event.target.matches("#values .grid .num")) rove(event.target);
  });

  const enterTable = () => {
    const cell = one("#values .grid .num[aria-current]") || one("#values .grid .num");
    if (cell) cell.focus();
  };

  /* ---- a long text's tokens scroll in their own box, to the one looked at ---- */

  const showToken = () => {
    const [box, token] = [one("#tokens"), one("#tokens [aria-current]")];
    if (!box || !token) return;
    const [outer, inner] = [box.getBoundingClientRect(), token.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom) box.scrollTop += inner.top - outer.top - box.clientHeight / 2;
  };

  /* ---- back along the trail ---- */

  const back = () => {
    const steps = [...document.querySelectorAll(".trail a:not([aria-current]), .trail button:not([aria-current])")];
    if (steps.length) steps[steps.length - 1].click();
    else history.back();
  };

  document.addEventListener("keydown", (event) => {
    const menu = one("details.menu[open]");
    if (event.key === "Escape" && menu) {
      menu.open = false;
      one("summary", menu).focus();
      return;
    }
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || typing(event.target)) return;
    if (event.key === "Backspace" && one("#values")) {
      event.preventDefault();
      back();
    } else if (event.key in MOVES && event.target.matches("#values .grid .num")) {
      move(event, event.key);
    }
  });

  document.addEventListener("click", (event) => {
    const menu = one("details.menu[open]");
    if (menu && !menu.contains(event.target)) menu.open = false;
  });

  /* ---- after a swap: focus stays in the part it was in; the new title is said ---- */

  let left = ""; // the part of the page that focus was in when the request began

  const live = document.createElement("p");
  live.id = "live";
  live.className = "vh";
  live.setAttribute("aria-live", "polite");
  document.body.append(live);
  rove();
  showToken();

  const part = (element) => {
    const around = element.closest("#values .grid, #values, #why, #map");
    return around ? around.id || "grid" : "";
  };

  document.addEventListener("htmx:beforeSwap", () => {
    left = document.activeElement ? part(document.activeElement) : "";
  });

  document.addEventListener("htmx:afterSettle", () => {
    rove();
    showToken();
    if (landing) {
      focusCell(table(), ...landing);
    } else if (left === "grid") {
      enterTable();
    } else if (left === "why") {
      const heading = one("#why h2");
      if (heading) {
        heading.tabIndex = -1;
        heading.focus({ preventScroll: true });
      }
    } else if (left === "map") {
      const site = one("#map [aria-current]");
      if (site) site.focus({ preventScroll: true });
    } else if (left === "values") {
      const heading = one("#values-h");
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
    landing = null;
    left = "";
    live.textContent = document.title;
  });
})();
