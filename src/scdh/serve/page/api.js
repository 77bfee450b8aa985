// The HTTP API of the service. Ids are kept as text, as they may be larger than numbers of JavaScript hold exactly.

export class ServiceError extends Error {
  constructor(code, message, status = 0) {
    super(message);
    this.code = code;
    this.status = status;
  }

  // Whether the same request is likely to work by itself after a while.
  get passes() {
    return ["offline", "starting", "stopping", "timeout"].includes(this.code);
  }
}

const MOST_CODES = 100;

function parse(text) {
  return JSON.parse(text, (key, value, context) => (key === "id" ? (context?.source ?? String(value)) : value));
}

// Not an answer of the service, but of a proxy before it.
function unreadable(status) {
  if (status === 413) return new ServiceError("too_large", "The picture is larger than may be sent.", status);
  if ([502, 503, 504].includes(status)) return new ServiceError("offline", `The service cannot be reached (${status}).`, status);
  return new ServiceError("bad_answer", `The service gave an answer that cannot be read (${status}).`, status);
}

async function request(address, options = {}) {
  let answer, text;
  try {
    answer = await fetch(address, options);
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError("offline", navigator.onLine ? "The service does not answer." : "This device is offline.");
  }
  let content;
  try {
    content = parse(text);
  } catch {
    throw unreadable(answer.status);
  }
  if (!answer.ok) {
    const { code = "error", message = "The service rejected this." } = content?.error ?? {};
    throw new ServiceError(code, message, answer.status);
  }
  return content;
}

function settings({ k, radius, labels, rank = "bits" }) {
  const query = new URLSearchParams();
  if (k !== null) query.set("k", k);
  if (radius !== null) query.set("radius", radius);
  if (rank !== "bits") query.set("rank", rank);
  for (const label of labels) query.append("label", label);
  return query;
}

function post(address, body, signal) {
  return request(address, {
    method: "POST", signal, body: JSON.stringify(body), headers: { "content-type": "application/json" },
  });
}

function body({ k, radius, labels, rank = "bits" }) {
  return { k, labels, ...(radius === null ? {} : { radius }), ...(rank === "bits" ? {} : { rank }) };
}

const first = (answer) => answer.results[0];

export const api = {
  info: (signal) => request("v1/info", { signal }),
  isReady: () => request("ready").then(() => true, () => false),
  item: (id, signal) => request(`v1/items/${encodeURIComponent(id)}`, { signal }),
  thumbnail: (id) => `v1/items/${encodeURIComponent(id)}/thumbnail`,
  picture: (id) => `v1/items/${encodeURIComponent(id)}/thumbnail?large=true`,
  map: () => request("v1/map"),
  sample: (k, { labels, name }, signal) => {
    const query = settings({ k, radius: null, labels });
    if (name) query.set("name", name);
    return request(`v1/sample?${query}`, { signal });
  },
  similar: (id, question, signal) =>
    request(`v1/items/${encodeURIComponent(id)}/similar?${settings(question)}`, { signal }).then(first),
  searchCode: (code, question, signal) => post("v1/search/code", { codes: [code], ...body(question) }, signal).then(first),
  searchVector: (vector, question, signal) =>
    post("v1/search/vector", { vectors: [vector], ...body(question) }, signal).then(first),
  searchImage(file, question, signal) {
    const form = new FormData();
    form.append("image", file);
    return request(`v1/search/image?${settings(question)}`, { method: "POST", body: form, signal }).then(first);
  },

  // Codes by id; a few requests where there are many ids.
  async codes(ids, signal) {
    const found = new Map();
    for (let start = 0; start < ids.length; start += MOST_CODES) {
      const query = new URLSearchParams(ids.slice(start, start + MOST_CODES).map((id) => ["id", id]));
      const answer = await request(`v1/codes?${query}`, { signal });
      for (const { id, code } of answer.items) found.set(id, code);
    }
    return found;
  },
};
