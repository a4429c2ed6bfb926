/* For pages that embed Every Number: makes each of its frames as high as what it shows.
   A frame says its height by message; only messages of frames on this page that come from this script's host count. */
"use strict";

(() => {
  const { origin } = new URL(document.currentScript.src);

  addEventListener("message", ({ data, origin: sender, source }) => {
    if (sender !== origin || !data || data.type !== "everynumber:height" || !(data.height > 0)) return;
    for (const frame of document.querySelectorAll("iframe")) {
      if (frame.contentWindow !== source) continue;
      const border = getComputedStyle(frame).boxSizing === "border-box" ? frame.offsetHeight - frame.clientHeight : 0;
      frame.style.height = `${Math.min(Math.ceil(data.height), 30000) + border}px`;
    }
  });

  for (const frame of document.querySelectorAll("iframe")) { // those that spoke before this script was here
    if (frame.src.startsWith(`${origin}/`)) frame.contentWindow.postMessage({ type: "everynumber:ask" }, "*");
  }
})();
