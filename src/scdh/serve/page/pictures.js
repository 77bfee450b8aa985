// Pictures that are searched with: small ones to show, and smaller files where the service takes no larger ones.

const PREVIEW_SIDE = 360;
const SENT_SIDE = 2048;
// What the service reads; what only the browser can read, such as AVIF, is sent as a JPEG.
const SENT_AS_THEY_ARE = /^image\/(jpeg|png|bmp|gif|webp|tiff)$/;

async function drawn(file, side) {
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  const pixels = bitmap.width * bitmap.height;
  bitmap.close();
  return { canvas, pixels };
}

// A small picture as an address that the history can keep; null if the browser cannot show the file.
export async function preview(file) {
  try {
    const { canvas, pixels } = await drawn(file, PREVIEW_SIDE);
    return { address: canvas.toDataURL("image/jpeg", 0.85), pixels };
  } catch {
    return { address: null, pixels: 0 };
  }
}

// The file itself wherever possible, as scaling changes some bits of the code.
export async function fileToSend(file, pixels, limits) {
  const isSmall = file.size <= 0.95 * limits.upload && pixels <= limits.pixels;
  if (isSmall && SENT_AS_THEY_ARE.test(file.type)) return file;
  try {
    const { canvas } = await drawn(file, SENT_SIDE);
    return await new Promise((resolve) => canvas.toBlob((blob) => resolve(blob ?? file), "image/jpeg", 0.92));
  } catch {
    return file;
  }
}
