// What was sent from this tab. An address has the code of a picture, but outputs rank only what is sent again.

const MOST = 20;
const searches = new Map();
let number = 0;

// A name for an upload that the history can keep; search(question, signal) asks with it again. After the page was loaded
// again the name means nothing, and must not mean a later upload.
export function keepUpload(search) {
  number += 1;
  const name = `${performance.timeOrigin} ${number}`;
  searches.set(name, search);
  if (searches.size > MOST) searches.delete(searches.keys().next().value);
  return name;
}

// The search of what the present entry of the history was made with; null if it is not there any more.
export function uploadOf(entry) {
  return searches.get(entry?.upload) ?? null;
}
