// Elements of the page and of its drawings.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An element with attributes (`onclick` and the like are listeners) and children. */
export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same of a drawing. */
export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

/** The element of an id. */
export const byId = (id) => document.getElementById(id);

/** A table: heads is an array of rows of cells, bodies an array of groups of rows. The first cell of a row names it. */
export function table(heads, bodies, name) {
  const cell = (tag, content, attributes) =>
    content?.nodeType || typeof content !== 'object' || content === null
      ? el(tag, attributes, content)
      : el(tag, { ...attributes, ...content.attributes }, content.text);
  const head = heads.map((row) => el('tr', {}, row.map((text) => cell('th', text, { scope: 'col' }))));
  const body = bodies.map((rows) => el('tbody', {}, rows.map(([first, ...rest]) => el('tr', {},
    cell('th', first, { scope: 'row' }), rest.map((text) => cell('td', text))))));
  return el('table', { 'aria-label': name }, el('thead', {}, head), body);
}

/** Calls with the element's width, now and whenever it changes. */
export function onWidth(element, call) {
  let last = 0;
  new ResizeObserver(() => {
    const width = Math.floor(element.clientWidth);
    if (width > 0 && width !== last) call((last = width));
  }).observe(element);
}
