// A large picture of an item or of the query, in a dialog.
import { byId } from "./elements.js";

// href: leads to the search with the item; null where the picture is the query itself.
export function showLarge({ address, name, id = null, href = null }) {
  const dialog = byId("large-dialog");
  byId("large-picture").src = address;
  byId("large-name").textContent = name;
  const link = byId("large-search");
  link.hidden = href === null;
  if (href !== null) {
    link.href = href;
    link.dataset.item = id;
  }
  dialog.showModal();
}

export function listenForLarge() {
  const dialog = byId("large-dialog");
  byId("large-close").addEventListener("click", () => dialog.close());
  byId("large-search").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.id === "large-picture") dialog.close();
  });
  dialog.addEventListener("close", () => byId("large-picture").removeAttribute("src"));
}
