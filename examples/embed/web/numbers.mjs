// Fields for the numbers that each entry point of a model takes, and what it gives of them.

export function enter(model, report, main, tell) {
  for (const entry of report.entries) main.append(form(model, entry, tell));
}

function form(model, entry, tell) {
  const made = document.createElement('form'), found = document.createElement('pre');
  made.innerHTML = `<h2></h2>${entry.inputs.map(field).join('')}<button>Run</button>`;
  made.firstChild.textContent = entry.signature ?? '';
  made.append(found);
  made.addEventListener('submit', (event) => {
    event.preventDefault();
    try {
      const inputs = Object.fromEntries(
        entry.inputs.map((each) => [each.name, array(each, made.elements[each.name].value)]));
      const begin = performance.now(), outputs = model.run(inputs, entry.signature);
      tell(performance.now() - begin);
      found.textContent = Object.entries(outputs).map(([name, value]) =>
        `${name} [${value.shape}]: ${Array.from(value, String).join(' ')}`).join('\n');
    } catch (error) {
      found.textContent = error.message;
    }
  });
  return made;
}

// An input: its numbers in row-major order, or nested as its axes are; at first as many zeros as there can be.
function field(tensor) {
  const zeros = most(tensor).reduceRight((inner, length) => Array(length).fill(inner), 0);
  return `<label>${tensor.name}: ${tensor.dtype}[${tensor.shape}]` +
    `<textarea name="${tensor.name}">${JSON.stringify(zeros)}</textarea></label>`;
}

function most(tensor) {
  const shape = [...tensor.shape];
  for (const each of tensor.lengths) shape[each.axis] = each.most;
  return shape;
}

function array(tensor, text) {
  const given = JSON.parse(text), shape = [];
  for (let each = given; Array.isArray(each); each = each[0]) shape.push(each.length);
  const flat = [given].flat(Infinity).map(tensor.dtype.endsWith('int64') ? BigInt : Number);
  return shape.length === tensor.shape.length ? Object.assign(flat, {shape}) : flat;
}
