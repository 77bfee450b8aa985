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

export function makeDrawing(canvas, points) {
  const gl = canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true });
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

class PlainDrawing {
  constructor(context, points) {
    this.context = context;
    this.points = points;
  }

  setColours(bytes) {
    this.bytes = bytes;
  }

  draw({ x, y, side, size }) {
    const { context, points, bytes } = this;
    const { width, height } = context.canvas;
    context.clearRect(0, 0, width, height);
    let last = -1;
    for (let point = 0; point < points.length; point++) {
      const left = width / 2 + (points.x[point] / 65535 - x) * side - size / 2;
      const top = height / 2 - (points.y[point] / 65535 - y) * side - size / 2;
      if (left < -size || top < -size || left > width || top > height) continue;
      const [red, green, blue, opacity] = bytes.subarray(4 * point, 4 * point + 4);
      const colour = (red << 16) | (green << 8) | blue;
      if (colour !== last || context.globalAlpha !== opacity / 255) {
        context.fillStyle = `rgb(${red} ${green} ${blue})`;
        context.globalAlpha = opacity / 255;
        last = colour;
      }
      context.fillRect(left, top, size, size);
    }
  }
}
