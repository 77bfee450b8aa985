// Colours of labels: as far apart as they can be, of like strength, on light and dark ground.

const LIGHTNESS = { light: [0.6, 0.45, 0.72], dark: [0.72, 0.56, 0.84] };
const GOLDEN_ANGLE = 137.508;

// OKLCH to bytes of sRGB, as written by Björn Ottosson.
function rgb(lightness, chroma, hue) {
  const angle = (hue * Math.PI) / 180;
  const a = chroma * Math.cos(angle);
  const b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((value) => {
    const clipped = Math.min(1, Math.max(0, value));
    return Math.round(255 * (clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055));
  });
}

export function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// [red, green, blue] of a label by its number; −1 is an item without label.
export function labelColour(number, dark) {
  if (number < 0) return dark ? [122, 131, 144] : [139, 148, 161];
  const steps = LIGHTNESS[dark ? "dark" : "light"];
  return rgb(steps[number % steps.length], 0.145, 255 + number * GOLDEN_ANGLE);
}
