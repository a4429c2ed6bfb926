/* Sharing: opens /share in a dialog instead of a page, and copies what it offers. Without it, both are done by hand. */
"use strict";

(() => {
  let dialog = null;
  let opener = null;

  const made = () => {
    if (dialog) return dialog;
    dialog = document.createElement("dialog");
    dialog.id = "share-dialog";
    dialog.setAttribute("aria-labelledby", "share-h");
    document.body.append(dialog);
    dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
    dialog.addEventListener("close", () => {
      dialog.replaceChildren(); // its preview stops
      if (opener && opener.isConnected) opener.focus();
    });
    return dialog;
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-share]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation(); // no page is to follow the link as well
    opener = link;
    htmx.ajax("GET", link.getAttribute("href"), { target: made(), swap: "innerHTML" }).then(() => {
      if (!dialog.querySelector("#share")) return;
      dialog.showModal();
      dialog.querySelector("#share-h").focus();
    });
  }, true);

  /* The clipboard is there on safe origins only; elsewhere the old way still works. */
  const copy = async (field) => {
    try {
      await navigator.clipboard.writeText(field.value);
      return true;
    } catch {
      field.focus();
      field.select();
      return document.execCommand("copy");
    }
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const done = await copy(document.getElementById(button.dataset.copy));
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });

  document.addEventListener("focusin", (event) => {
    if (event.target.matches("[data-select]")) event.target.select();
  });
})();
