"use strict";

// Names and labels are always set as text, never as HTML.
function element(kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  return made;
}

async function request(address, options) {
  const answer = await fetch(address, options);
  const content = await answer.json();
  if (!answer.ok) throw new Error(content.error.message);
  return content;
}

async function showState() {
  const state = document.getElementById("state");
  try {
    const info = await request("/v1/info");
    state.textContent = `${info.index.items} items, ${info.index.bits} bits, ${info.model.method}.`;
    document.getElementById("picture").disabled = info.model.input !== "images";
  } catch (error) {
    state.textContent = error.message;
  }
}

async function search(file) {
  const message = document.getElementById("message");
  const list = document.getElementById("hits");
  message.textContent = "";
  list.replaceChildren();
  const form = new FormData();
  form.append("image", file);
  try {
    const content = await request("/v1/search/image?k=20", { method: "POST", body: form });
    for (const hit of content.results[0].hits) {
      const name = hit.name || `item ${hit.id}`;
      const row = element("li", `${hit.distance} bits: ${name} ${hit.labels.join(", ")}`);
      const picture = element("img", "");
      picture.loading = "lazy";
      picture.alt = name;
      picture.addEventListener("error", () => picture.remove());
      picture.src = `/v1/items/${hit.id}/thumbnail`;
      row.prepend(picture);
      list.append(row);
    }
  } catch (error) {
    message.textContent = error.message;
  }
}

document.getElementById("picture").addEventListener("change", (event) => {
  if (event.target.files.length) search(event.target.files[0]);
});
showState();
