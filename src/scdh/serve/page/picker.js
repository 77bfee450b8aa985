// Ways to give a picture: choose, photograph, drop, paste.
import { byId } from "./elements.js";

// A phone opens its own camera through the file input; elsewhere a dialog shows the camera's picture.
const hasOwnCamera = () => matchMedia("(pointer: coarse)").matches;

// Calls onPicture(file), onText(text) for pasted text, onRefused(sentence).
export function listenForPictures({ isEnabled, onPicture, onText, onRefused }) {
  const take = (files) => {
    const picture = [...files].find((file) => file.type.startsWith("image/"));
    if (picture) onPicture(picture);
    else onRefused("Only picture files can be searched with.");
  };
  for (const id of ["file", "camera"]) {
    byId(id).addEventListener("change", (event) => {
      if (event.target.files.length) take(event.target.files);
      event.target.value = ""; // the same file may be chosen again
    });
  }
  byId("choose").addEventListener("click", () => byId("file").click());
  listenForCamera(onPicture);
  listenForDrops(isEnabled, take, onRefused);
  document.addEventListener("paste", (event) => {
    const isTyping = event.target.closest?.("input, textarea");
    if (event.clipboardData.files.length && isEnabled()) {
      event.preventDefault();
      take(event.clipboardData.files);
    } else if (!isTyping) {
      onText(event.clipboardData.getData("text/plain").trim());
    }
  });
}

function listenForDrops(isEnabled, take, onRefused) {
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
    if (!isEnabled()) return;
    if (event.dataTransfer.files.length) take(event.dataTransfer.files);
    else onRefused("Drop a picture file; a picture of another web page has to be saved first.");
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
  byId("photograph").addEventListener("click", async () => {
    if (hasOwnCamera() || !navigator.mediaDevices) {
      byId("camera").click();
      return;
    }
    byId("camera-error").textContent = "";
    byId("camera-shoot").disabled = true;
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
