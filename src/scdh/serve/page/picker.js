// Ways to give a picture: choose, photograph, drop, paste.
import { byId } from "./elements.js";

// A phone opens its own camera through the file input; elsewhere a dialog shows the camera's picture.
const hasOwnCamera = () => matchMedia("(pointer: coarse)").matches;

// Calls onPicture(file), onText(text) for pasted text, onRejected(sentence) for other files or while not isEnabled().
export function listenForPictures({ isEnabled, onPicture, onText, onRejected }) {
  const take = (files) => {
    const picture = isEnabled() && [...files].find((file) => file.type.startsWith("image/"));
    if (picture) onPicture(picture);
    else onRejected("Only picture files can be searched with.");
  };
  for (const id of ["file", "camera"]) {
    byId(id).addEventListener("change", (event) => {
      if (event.target.files.length) take(event.target.files);
      event.target.value = ""; // the same file may be chosen again
    });
  }
  byId("choose").addEventListener("click", () => byId("file").click());
  listenForCamera(onPicture);
  listenForDrops(isEnabled, take, onRejected);
  document.addEventListener("paste", (event) => {
    const isTyping = event.target.closest?.("input, textarea");
    const text = event.clipboardData.getData("text/plain").trim(); // cells of a spreadsheet come as a picture, too
    if (event.clipboardData.files.length && (isEnabled() || !text)) {
      event.preventDefault();
      take(event.clipboardData.files);
    } else if (!isTyping) {
      onText(text);
    }
  });
}

function listenForDrops(isEnabled, take, onRejected) {
  const cover = byId("drop-here");
  let depth = 0; // dragenter and dragleave come for every element on the way
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files") && isEnabled();
  addEventListener("dragenter", (event) => {
    if (!hasFiles(event)) return;
    depth += 1;
    cover.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (hasFiles(event)) depth = Math.max(0, depth - 1);
    cover.hidden = depth === 0;
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    cover.hidden = true;
    if (event.dataTransfer.files.length) take(event.dataTransfer.files);
    else onRejected("Drop a picture file; a picture of another web page has to be saved first.");
  });
}

function listenForCamera(onPicture) {
  const dialog = byId("camera-dialog");
  const video = byId("camera-video");
  let stream = null;
  const stop = () => {
    stream?.getTracks().forEach((track) => track.stop());
    stream = null;
    video.srcObject = null;
  };
  dialog.addEventListener("close", stop);
  byId("camera-cancel").addEventListener("click", () => dialog.close());
  byId("camera-choose").addEventListener("click", () => {
    dialog.close();
    byId("choose").click();
  });
  byId("photograph").addEventListener("click", async () => {
    if (hasOwnCamera() || !navigator.mediaDevices) {
      byId("camera").click();
      return;
    }
    byId("camera-error").textContent = "";
    byId("camera-shoot").disabled = true;
    byId("camera-choose").hidden = true;
    dialog.showModal();
    try {
      const opened = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } });
      stream = opened;
      if (!dialog.open) return stop();
      video.srcObject = opened;
      await video.play();
      byId("camera-shoot").disabled = false;
    } catch {
      byId("camera-error").textContent = "No camera can be used: there is none, or this page may not use it.";
      byId("camera-choose").hidden = false;
    }
  });
  byId("camera-shoot").addEventListener("click", () => {
    const canvas = document.createElement("canvas");
    canvas.width = video.videoWidth;
    canvas.height = video.videoHeight;
    canvas.getContext("2d").drawImage(video, 0, 0);
    dialog.close();
    canvas.toBlob((blob) => {
      if (blob) onPicture(new File([blob], "Photo", { type: "image/jpeg" }));
    }, "image/jpeg", 0.95);
  });
}

// For a model of embeddings, which takes no pictures.
export function askForEmbeddings() {
  if (byId("picker").hidden) return;
  byId("picker").hidden = true;
  byId("by-code").open = true;
  byId("ask-title").textContent = "Search by example";
  byId("lead").textContent = "Choose an item, or paste an embedding, and see what is of the same kind.";
  byId("by-code-title").textContent = "Search by embedding or code";
  byId("code-label").textContent = "Numbers of an embedding, or a code in hexadecimal digits";
}
