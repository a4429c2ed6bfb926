/* Inside an embed: tells the page around it how high the content is, whenever that changes or is asked. The height is no
   secret, so it is told whoever frames the page; nothing else is. */
"use strict";

(() => {
  if (window.parent === window) return;

  const tell = () => {
    const height = Math.ceil(document.documentElement.getBoundingClientRect().height);
    window.parent.postMessage({ type: "everynumber:height", height }, "*");
  };

  tell(); // at once, and when all is there: the observer sleeps in a frame that is far from view
  window.addEventListener("load", tell);
  new ResizeObserver(tell).observe(document.documentElement);
  window.addEventListener("message", ({ data, source }) => {
    if (source === window.parent && data && data.type === "everynumber:ask") tell();
  });

  /* A number opened below what is in view: bring its answer there. */
  document.addEventListener("htmx:afterSettle", (event) => {
    const why = event.target.id === "why" ? event.target : document.getElementById("why");
    if (why && event.detail.target.id === "why") why.scrollIntoView({ block: "nearest" });
  });
})();
