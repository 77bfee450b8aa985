// What is shown in the place of results when something went wrong: what it was, and buttons for what helps.
import { ServiceError } from "./api.js";
import { count, panel } from "./elements.js";

// By the code of the error. `helps` are names of what the view offers; those that it does not have are left out.
const KINDS = {
  offline: { title: "No connection", helps: ["again"] },
  starting: { title: "Starting", helps: ["again"] },
  stopping: { title: "Restarting", helps: ["again"] },
  timeout: { title: "This takes long", helps: ["again"] },
  busy: { title: "Busy", helps: ["again"] },
  index_unusable: { title: "The collection cannot be read", helps: ["again"] },
  not_found: { title: "Not found", hint: "It may have been removed.", helps: ["start"] },
  no_overview: { title: "The items cannot be listed", hint: "Searching works all the same.", helps: ["picture", "search"] },
  bad_image: { title: "This picture cannot be used", helps: ["picture", "before"] },
  too_large: { title: "Too large", hint: "A smaller picture works.", helps: ["picture", "before"] },
  slow: { title: "The upload took too long", helps: ["again", "picture"] },
  not_pictures: { title: "No pictures here", helps: ["before"] },
  invalid: { title: "This search is not possible", helps: ["filter", "settings", "start"] },
  bad_answer: { title: "An answer of something else", hint: "Perhaps you have to log in again.", helps: ["reload"] },
};
const OTHER = { title: "That did not work", helps: ["again", "start"] };

// helps: name → [text of the button, what it does], or null where it does not apply.
export function trouble(error, helps) {
  const isKnown = error instanceof ServiceError;
  if (!isKnown) console.error(error);
  const { title, hint = "", helps: names } = KINDS[error.code] ?? OTHER;
  const said = isKnown ? error.message : "This page met an error of its own.";
  const text = [said, hint, error.passes ? "This page tries again by itself." : ""].filter(Boolean).join(" ");
  const all = { reload: ["Load the page again", () => location.reload()], ...helps };
  return panel(title, text, { wrong: !error.passes, actions: names.map((name) => all[name]) });
}

// A search, or the start, that has nothing to show.
export function nothing(state, { distance, filter, start, again }) {
  const ofLabels = state.labels.length ? " with these labels" : "";
  if (state.name) {
    return panel("No items", `No item${ofLabels} has “${state.name}” in its name.`, { actions: [filter, start] });
  }
  if (state.radius !== null) {
    const text = `No${state.item === null ? "" : " other"} item${ofLabels} is within ${count(state.radius, "bit")}.`;
    return panel("Nothing is that near", text, { actions: [distance, filter] });
  }
  if (ofLabels) return panel("No items", `There is no${state.item === null ? "" : " other"} item${ofLabels}.`, { actions: [filter] });
  if (state.item !== null) return panel("No other items", "This is the only item of the collection.", { actions: [start] });
  return panel("This collection is empty", "Items that are added to the index appear here.", { actions: [again] });
}
