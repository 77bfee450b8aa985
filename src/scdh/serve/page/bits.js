// Codes as pictures: a strip of bits, and a square of them for items without a picture.
import { makeSvg } from "./elements.js";

export function bitsOf(code, bits) {
  const values = new Uint8Array(bits);
  for (let bit = 0; bit < bits; bit++) {
    values[bit] = (parseInt(code[bit >> 2], 16) >> (3 - (bit & 3))) & 1;
  }
  return values;
}

function square(x, y, width, height) {
  return `M${x} ${y}h${width}v${height}h${-width}z`;
}

// One row; where it differs from the code of the query, the bit has the accent colour and the full height.
export function strip(code, bits, other = null) {
  const values = bitsOf(code, bits);
  const others = other === null ? values : bitsOf(other, bits);
  const paths = { "bit-off": "", "bit-on": "", "bit-differs": "" };
  const gap = bits <= 128 ? 0.2 : 0;
  let differing = 0;
  for (let bit = 0; bit < bits; bit++) {
    const differs = values[bit] !== others[bit];
    differing += differs;
    const kind = differs ? "bit-differs" : values[bit] ? "bit-on" : "bit-off";
    // A set bit is tall and a bit that is not set is low, so that they differ without colours too.
    paths[kind] += values[bit] ? square(bit, 0, 1 - gap, 10) : square(bit, 5, 1 - gap, 5);
  }
  const text = other === null ? `Code of ${bits} bits` : `${differing} of ${bits} bits differ`;
  const parts = Object.entries(paths).filter(([, path]) => path).map(([kind, d]) => makeSvg("path", { class: kind, d }));
  return makeSvg(
    "svg",
    { class: "strip", viewBox: `0 0 ${bits} 10`, preserveAspectRatio: "none", role: "img", "aria-label": text },
    ...parts,
  );
}

// The bits as a square, for items without a picture.
export function tile(code, bits) {
  const values = bitsOf(code, bits);
  const side = Math.ceil(Math.sqrt(bits));
  const paths = ["", ""];
  values.forEach((value, bit) => {
    paths[value] += square(bit % side, Math.floor(bit / side), 0.86, 0.86);
  });
  return makeSvg(
    "svg",
    { class: "tile", viewBox: `0 0 ${side} ${Math.ceil(bits / side)}`, "aria-hidden": "true" },
    makeSvg("path", { class: "bit-off", d: paths[0] }),
    makeSvg("path", { class: "bit-on", d: paths[1] }),
  );
}
