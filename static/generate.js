/* What a form alone cannot do on the page of generation: sliders and numbers that move together, a branch that is
   forgotten when the text is changed, Escape as Stop. Without it the page works. */
"use strict";

(() => {
  const form = document.querySelector("#ask");
  if (!form) return;

  document.addEventListener("input", (event) => {
    const input = event.target;
    if (input.form !== form) return;
    if (input.dataset.pair) {
      form.elements[input.dataset.pair].value = input.value;
    } else {
      const range = form.querySelector(`[data-pair="${input.name}"]`);
      if (range) range.value = input.value.replace(",", ".");
    }
    if (input.name === "text") for (const pick of form.querySelectorAll("[name=pick]")) pick.remove();
  });

  /* The fields follow what is shown: fewer tokens after Stop, more after "Make the next", the tokens taken. */
  const follow = () => {
    const shown = document.querySelector("#shown");
    if (!shown) return;
    const n = form.elements.n;
    if (n !== document.activeElement) {
      n.value = shown.dataset.n;
      form.querySelector('[data-pair="n"]').value = shown.dataset.n;
    }
    for (const pick of form.querySelectorAll("[name=pick]")) pick.remove();
    for (const value of shown.dataset.picks.split(" ").filter(Boolean)) {
      const pick = document.createElement("input");
      Object.assign(pick, { type: "hidden", name: "pick", value });
      form.append(pick);
    }
  };

  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.detail.xhr && event.detail.xhr.status >= 400) return;
    document.querySelector("#notice").textContent = "";
    const told = document.querySelector("#content > .fault");
    if (told) told.remove();
    follow();
  });

  document.addEventListener("keydown", (event) => {
    const stop = document.querySelector("#stop");
    if (event.key === "Escape" && stop) stop.click();
  });
})();
