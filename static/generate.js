/* What a form alone cannot do on the page of generation: sliders and numbers that move together, a branch that is
   forgotten when the text is changed, Escape as Stop, arrows among the tokens. Without it the page works. */
"use strict";

(() => {
  const form = document.querySelector("#ask");
  if (!form) return;

  let edited = false; // the text is no longer the one that is shown

  const forget = () => {
    for (const field of form.querySelectorAll("[name=pick], [name=step]")) field.remove();
  };

  const add = (name, value) => {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  };

  document.addEventListener("input", (event) => {
    const input = event.target;
    if (input.form !== form) return;
    if (input.dataset.pair) {
      form.elements[input.dataset.pair].value = input.value;
    } else {
      const range = form.querySelector(`[data-pair="${input.name}"]`);
      if (range) range.value = input.value.replace(",", ".");
    }
    if (input.name === "text") {
      edited = true;
      forget();
    }
  });

  /* The fields follow what is shown: fewer tokens after Stop, more after "Make the next", the tokens taken, the step looked at. */
  const follow = () => {
    const shown = document.querySelector("#shown");
    if (!shown) return;
    const n = form.elements.n;
    if (n !== document.activeElement) {
      n.value = shown.dataset.n;
      form.querySelector('[data-pair="n"]').value = shown.dataset.n;
    }
    if (edited) return;
    forget();
    if (shown.dataset.step) add("step", shown.dataset.step);
    for (const pick of shown.dataset.picks.split(" ").filter(Boolean)) add("pick", pick);
  };

  /* Stop keeps what is there now, not what was there when its link was made. */
  document.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt.id !== "stop") return;
    const url = new URL(event.detail.path, location.href);
    url.searchParams.set("n", document.querySelectorAll("#generation .made").length);
    event.detail.path = url.pathname + url.search;
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt === form) edited = false;
  });

  /* What had the focus in the choice may be gone with it, as a token's "take" is: then its heading has it. */
  let inChoice = false;

  document.addEventListener("htmx:beforeSwap", () => {
    inChoice = Boolean(document.activeElement && document.activeElement.closest("#choice"));
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    const heading = document.querySelector("#choice-h");
    if (inChoice && heading && document.activeElement === document.body) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
    if (event.detail.xhr && event.detail.xhr.status >= 400) return;
    document.querySelector("#notice").textContent = "";
    const told = document.querySelector("#content > .fault");
    if (told) told.remove();
    follow();
  });

  document.addEventListener("keydown", (event) => {
    const stop = document.querySelector("#stop");
    if (event.key === "Escape" && stop) stop.click();
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by || !event.target.matches(".made") || event.altKey || event.ctrlKey || event.metaKey) return;
    const made = [...document.querySelectorAll(".made")];
    const next = made[made.indexOf(event.target) + by];
    if (next) next.focus();
    event.preventDefault();
  });
})();
