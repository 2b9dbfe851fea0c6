// Markup with values, as elements: el`<p class="quiet">${text}</p>`. Values become text nodes, attributes and
// listeners, never markup.
//
// A child may be a text, an element, a list of these, or null. An attribute is left out where its value is null or
// false. `@click` is a listener, `--share` a property of the element's style, `value` a property of a control.

const parsed = new WeakMap(); // the texts of a template -> its nodes, with a mark for each value

const el = (texts, ...values) => filled(texts, values, html => html);
// The same for parts of a picture.
const svg = (texts, ...values) => filled(texts, values, html => `<svg>${html}</svg>`);

function filled(texts, values, wrap) {
  if (!parsed.has(texts)) parsed.set(texts, parse(texts, wrap));
  const nodes = parsed.get(texts).cloneNode(true);
  const walker = document.createTreeWalker(nodes, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT);
  const places = [];
  while (walker.nextNode()) places.push(walker.currentNode);
  for (const place of places) {
    if (place.nodeType === Node.COMMENT_NODE) place.replaceWith(...childrenOf(values[place.data]));
    else for (const { name, value } of [...place.attributes]) setValue(place, name, value, values);
  }
  return nodes.childNodes.length === 1 ? nodes.firstChild : nodes;
}

const childrenOf = value => [value].flat(Infinity).filter(x => x !== null && x !== undefined && x !== false);

// A value's mark is {3} within a tag and a comment elsewhere. Line ends beside tags are no text.
function parse(texts, wrap) {
  const marked = texts.reduce(
    (html, text, i) => html + (/<[^>]*$/.test(html) ? `{${i - 1}}` : `<!--${i - 1}-->`) + text,
  );
  const template = document.createElement("template");
  template.innerHTML = wrap(marked.replace(/>\s*\n\s*|\s*\n\s*</g, x => x.trim()));
  const { content } = template;
  if (wrap("")) content.replaceChildren(...content.firstChild.childNodes);
  return content;
}

function setValue(element, name, text, values) {
  if (!text.includes("{")) return;
  const alone = /^\{(\d+)\}$/.exec(text);
  const value = alone ? values[alone[1]] : text.replace(/\{(\d+)\}/g, (_, i) => values[i] ?? "");
  element.removeAttribute(name);
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("@")) element.addEventListener(name.slice(1), value);
  else if (name.startsWith("--")) element.style.setProperty(name, value);
  else if (name === "value" && element.tagName === "INPUT") element.value = value;
  else element.setAttribute(name, value === true ? "" : value);
}
