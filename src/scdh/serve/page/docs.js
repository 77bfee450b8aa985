"use strict";

function add(parent, kind, text) {
  const made = document.createElement(kind);
  made.textContent = text;
  parent.append(made);
  return made;
}

function resolve(document_, schema) {
  if (!schema || !schema.$ref) return schema || {};
  return schema.$ref.split("/").slice(1).reduce((part, key) => part[key], document_);
}

function example(content, schema) {
  return content.example || (schema.examples || [])[0];
}

function curl(path, method, kind, given) {
  const address = new URL(path.slice(1).replace("{id}", "0"), location.href).href; // also below a path of a proxy
  const parts = ["curl"];
  if (method !== "get") parts.push("-X", method.toUpperCase());
  if (kind === "multipart/form-data") parts.push("-F image=@photo.jpg");
  if (kind === "application/json") parts.push("-H 'content-type: application/json'", `-d '${JSON.stringify(given)}'`);
  return [...parts, `'${address}'`].join(" ");
}

function showBody(document_, section, path, method, operation) {
  const kinds = operation.requestBody ? operation.requestBody.content : { none: {} };
  for (const [kind, content] of Object.entries(kinds)) {
    const schema = resolve(document_, content.schema);
    for (const [name, field] of Object.entries(schema.properties || {})) {
      add(section, "p", `${name} (${kind}): ${field.description || field.type || ""}`);
    }
    add(add(section, "pre", ""), "code", curl(path, method, kind, example(content, schema)));
  }
}

function showOperation(document_, parent, path, method, operation) {
  const section = add(parent, "section", "");
  add(section, "h2", `${method.toUpperCase()} ${path}`);
  add(section, "p", operation.description || operation.summary);
  for (const parameter of operation.parameters || []) {
    add(section, "p", `${parameter.name} (${parameter.in}): ${parameter.description || ""}`);
  }
  showBody(document_, section, path, method, operation);
  for (const [status, answer] of Object.entries(operation.responses)) {
    const content = (answer.content || {})["application/json"] || {};
    const given = example(content, resolve(document_, content.schema));
    add(section, "p", `${status}: ${answer.description}`);
    if (given && status < "300") add(add(section, "pre", ""), "code", JSON.stringify(given, null, 1));
  }
}

async function show() {
  const parent = document.getElementById("routes");
  try {
    const document_ = await (await fetch("openapi.json")).json();
    for (const [path, methods] of Object.entries(document_.paths)) {
      for (const [method, operation] of Object.entries(methods)) {
        showOperation(document_, parent, path, method, operation);
      }
    }
  } catch (error) {
    add(parent, "p", "The service does not answer.");
  }
}

show();
