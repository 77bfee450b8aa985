// Pointer, wheel and keys of the map.

const CLICK_PIXELS = 5; // a pointer that moves less than this between down and up clicks
const KEY_PIXELS = 60;

export function listenForMoves(canvas, map) {
  listenForPointers(canvas, map);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    const [left, top] = placeOf(canvas, event);
    map.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0022)), left, top);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    const step = KEY_PIXELS / map.view.side;
    const acts = {
      ArrowLeft: () => map.move(-step, 0), ArrowRight: () => map.move(step, 0),
      ArrowUp: () => map.move(0, step), ArrowDown: () => map.move(0, -step),
      "+": () => map.zoom(1.6), "=": () => map.zoom(1.6), "-": () => map.zoom(1 / 1.6), 0: () => map.fit(),
      Enter: () => map.choose(middle()), Escape: () => map.hideTip(),
    };
    // The item nearest to the middle, wherever it is.
    const middle = () => map.pointAt(canvas.clientWidth / 2, canvas.clientHeight / 2, map.view.side * 2);
    if (!(event.key in acts)) return;
    event.preventDefault();
    acts[event.key]();
    if (!["Enter", "Escape"].includes(event.key)) map.point(middle(), { tells: true });
  });
  canvas.addEventListener("blur", (event) => {
    if (event.relatedTarget?.id !== "tip") map.hideTip(); // a finger that touches the tip chooses it
  });
}

function placeOf(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

// One pointer moves, two zoom; one that stays in place clicks.
function listenForPointers(canvas, map) {
  const pointers = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    if (!pointers.size) travelled = 0;
    pointers.set(event.pointerId, placeOf(canvas, event));
  });
  canvas.addEventListener("pointermove", (event) => {
    const place = placeOf(canvas, event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      if (event.pointerType !== "touch") map.point(map.pointAt(...place));
      return;
    }
    travelled += Math.hypot(place[0] - before[0], place[1] - before[1]);
    if (travelled > CLICK_PIXELS) {
      canvas.classList.add("moving");
      const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, other]) => other);
      if (others.length) {
        const apart = (from) => Math.hypot(from[0] - others[0][0], from[1] - others[0][1]);
        map.zoom(apart(place) / Math.max(1, apart(before)), (place[0] + others[0][0]) / 2, (place[1] + others[0][1]) / 2);
      } else {
        map.move((before[0] - place[0]) / map.view.side, (place[1] - before[1]) / map.view.side);
      }
    }
    pointers.set(event.pointerId, place);
  });
  const end = (event) => {
    const wasDown = pointers.delete(event.pointerId);
    canvas.classList.remove("moving");
    if (!wasDown || event.type !== "pointerup" || travelled > CLICK_PIXELS || pointers.size) return;
    const point = map.pointAt(...placeOf(canvas, event), event.pointerType === "touch" ? 24 : undefined);
    // A finger cannot hover: the first touch shows what is there, and what it shows can be touched.
    if (event.pointerType === "touch") map.point(point, { touchable: true });
    else map.choose(point);
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") map.hideTip();
  });
}
