// Draws points: with WebGL, or on a plain canvas where there is none.

const VERTEX = `#version 300 es
in vec2 place; in vec4 colour;
uniform vec2 centre; uniform vec2 scale; uniform float size;
out vec4 shade;
void main() {
  gl_Position = vec4((place - centre) * scale, 0.0, 1.0);
  gl_PointSize = size;
  shade = colour;
}`;
const FRAGMENT = `#version 300 es
precision highp float;
in vec4 shade;
uniform float size;
out vec4 pixel;
void main() {
  float edge = size * (0.5 - length(gl_PointCoord - 0.5));
  float cover = shade.a * clamp(edge, 0.0, 1.0);
  pixel = vec4(shade.rgb * cover, cover);
}`;

// Where the processor would have to play the graphics card, the plain canvas is faster.
function hasGraphicsCard() {
  const gl = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!gl) return false;
  const known = gl.getExtension("WEBGL_debug_renderer_info");
  const renderer = String(gl.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return !/swiftshader|llvmpipe|softpipe|software|basic render/i.test(renderer);
}

export function makeDrawing(canvas, points) {
  const gl = hasGraphicsCard() ? canvas.getContext("webgl2", { antialias: false }) : null;
  return gl ? new WebGlDrawing(gl, points) : new PlainDrawing(canvas.getContext("2d"), points);
}

class WebGlDrawing {
  constructor(gl, points) {
    this.gl = gl;
    this.points = points;
    gl.canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    gl.canvas.addEventListener("webglcontextrestored", () => {
      this.setUp();
      if (this.bytes) this.setColours(this.bytes);
      this.onRestored?.();
    });
    this.setUp();
  }

  setUp() {
    const { gl, points } = this;
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    const places = new Uint16Array(2 * points.length);
    for (let point = 0; point < points.length; point++) {
      places[2 * point] = points.x[point];
      places[2 * point + 1] = points.y[point];
    }
    this.attribute(program, "place", places, 2, gl.UNSIGNED_SHORT);
    this.colours = this.attribute(program, "colour", new Uint8Array(4 * points.length), 4, gl.UNSIGNED_BYTE);
    this.uniforms = Object.fromEntries(["centre", "scale", "size"].map((name) => [name, gl.getUniformLocation(program, name)]));
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  attribute(program, name, values, width, kind) {
    const { gl } = this;
    const buffer = gl.createBuffer();
    const place = gl.getAttribLocation(program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, width, kind, true, 0, 0);
    return buffer;
  }

  // Four bytes a point: red, green, blue, opacity.
  setColours(bytes) {
    this.bytes = bytes;
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.colours);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, bytes, this.gl.STATIC_DRAW);
  }

  // The view: the centre in the unit square, device pixels of its side, and the size of a point in them.
  draw({ x, y, side, size }) {
    const { gl } = this;
    const { width, height } = gl.canvas;
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.uniforms.centre, x, y);
    gl.uniform2f(this.uniforms.scale, (2 * side) / width, (2 * side) / height);
    gl.uniform1f(this.uniforms.size, size);
    gl.drawArrays(gl.POINTS, 0, this.points.length);
  }
}

// Writes pixels itself, which is several times as fast as calls of the canvas, and as WebGL without a graphics card.
class PlainDrawing {
  constructor(context, points) {
    this.context = context;
    this.points = points;
  }

  setColours(bytes) {
    this.words = new Uint32Array(bytes.buffer);
  }

  // The pixels of a disc: how far each is from the middle one in memory, and how much of it the disc covers.
  disc(size, width) {
    if (this.stamp?.size === size && this.stamp.width === width) return this.stamp;
    const reach = Math.ceil(size / 2);
    const steps = [];
    const covers = [];
    for (let y = -reach; y <= reach; y++) {
      for (let x = -reach; x <= reach; x++) {
        const cover = Math.min(1, size / 2 + 0.5 - Math.hypot(x, y));
        if (cover > 0.1) {
          steps.push(y * width + x);
          covers.push(cover);
        }
      }
    }
    this.stamp = { size, width, reach, steps: Int32Array.from(steps), covers: Float32Array.from(covers) };
    return this.stamp;
  }

  draw({ x, y, side, size }) {
    const { context, points, words } = this;
    const { width, height } = context.canvas;
    if (this.image?.width !== width || this.image.height !== height) {
      this.image = context.createImageData(width, height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    }
    const { pixels } = this;
    const { reach, steps, covers } = this.disc(size, width);
    pixels.fill(0);
    const scale = side / 65535;
    const left = width / 2 - x * side;
    const top = height / 2 + y * side;
    for (let point = 0; point < points.length; point++) {
      const column = Math.round(left + points.x[point] * scale);
      const row = Math.round(top - points.y[point] * scale);
      if (column < reach || row < reach || column >= width - reach || row >= height - reach) continue;
      const place = row * width + column;
      const colour = words[point] & 0xffffff;
      const opacity = words[point] >>> 24;
      for (let step = 0; step < steps.length; step++) {
        const own = (opacity * covers[step]) | 0;
        const pixel = place + steps[step];
        // The more opaque one stays, so that edges do not cut into other points and pale points lie below.
        if (pixels[pixel] >>> 24 <= own) pixels[pixel] = (own << 24) | colour;
      }
    }
    context.putImageData(this.image, 0, 0);
  }
}
