// The points of the map in memory: read once, found quickly by place.

const CELLS = 256; // along each side
const GRID = 65535;

function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  return bytes.buffer;
}

export class Points {
  constructor(answer) {
    this.length = answer.points;
    this.items = answer.items;
    this.labelNames = answer.label_names;
    this.ids = new BigInt64Array(bytesOf(answer.ids));
    this.x = new Uint16Array(bytesOf(answer.x));
    this.y = new Uint16Array(bytesOf(answer.y));
    this.labels = new Int32Array(bytesOf(answer.labels));
    this.counts = new Uint32Array(this.labelNames.length);
    for (const label of this.labels) if (label >= 0) this.counts[label] += 1;
    this.fillCells();
  }

  // Points sorted by the cell that they lie in, and where each cell begins.
  fillCells() {
    const cellOf = (point) => (this.y[point] >> 8) * CELLS + (this.x[point] >> 8);
    this.starts = new Uint32Array(CELLS * CELLS + 1);
    for (let point = 0; point < this.length; point++) this.starts[cellOf(point) + 1] += 1;
    for (let cell = 0; cell < CELLS * CELLS; cell++) this.starts[cell + 1] += this.starts[cell];
    const next = this.starts.slice(0, -1);
    this.sorted = new Uint32Array(this.length);
    for (let point = 0; point < this.length; point++) this.sorted[next[cellOf(point)]++] = point;
  }

  // The point nearest to a place of the unit square, at most `reach` away; −1 if there is none.
  nearest(x, y, reach, isShown = () => true) {
    const cell = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor((value * GRID) / 256)));
    let found = -1;
    let least = reach * reach;
    for (let row = cell(y - reach); row <= cell(y + reach); row++) {
      const from = this.starts[row * CELLS + cell(x - reach)];
      const to = this.starts[row * CELLS + cell(x + reach) + 1];
      for (let place = from; place < to; place++) {
        const point = this.sorted[place];
        const distance = (this.x[point] / GRID - x) ** 2 + (this.y[point] / GRID - y) ** 2;
        if (distance <= least && isShown(point)) {
          least = distance;
          found = point;
        }
      }
    }
    return found;
  }

  place(point) {
    return [this.x[point] / GRID, this.y[point] / GRID];
  }

  find(id) {
    return id === null ? -1 : this.ids.indexOf(BigInt(id));
  }
}
