// Runs a compiled model on the inputs in calls.json and writes what it gives, in hexadecimal, a line for each output.
import fs from 'fs';

const {module, name, arena, state, alignment, calls} = JSON.parse(fs.readFileSync('calls.json'));
const {instance} = await WebAssembly.instantiate(fs.readFileSync(module), {});
const {memory, __heap_base: base, ...functions} = instance.exports;
let top = base.value;

function allocate(size) {
  const begin = Math.ceil(top / alignment) * alignment;
  top = begin + size;
  const missing = top - memory.buffer.byteLength;
  if (missing > 0) memory.grow(Math.ceil(missing / 65536));
  return begin;
}

function struct(words) {
  const begin = allocate(4 * Math.max(words.length, 1));
  new Uint32Array(memory.buffer, begin, words.length).set(words);
  return begin;
}

const [stateAt, arenaAt] = [allocate(state + 1), allocate(arena + 1)];
new Uint8Array(memory.buffer).fill(0xa5, stateAt);
functions[`${name}_init`]?.(stateAt);
for (const {entry, inputs, outputs} of calls) {
  const given = inputs.flatMap((each) => {
    const data = Buffer.from(each.data, 'hex');
    const begin = allocate(data.length);
    new Uint8Array(memory.buffer).set(data, begin);
    return [begin, ...each.lengths];
  });
  const taken = outputs.map((each) => ({begin: allocate(each.bytes), told: allocate(4 * each.lengths), ...each}));
  const results = taken.flatMap((each) => each.lengths ? [each.begin, each.told] : [each.begin]);
  const status = functions[entry](struct(given), struct(results), arenaAt, stateAt);
  console.log(`status ${status}`);
  for (const {begin, bytes, told, lengths} of taken) {
    console.log(Buffer.from(memory.buffer, begin, bytes).toString('hex'));
    if (lengths) console.log([...new Uint32Array(memory.buffer, told, lengths)].join(' '));
  }
}
const bytes = new Uint8Array(memory.buffer);
if (bytes[stateAt + state] !== 0xa5 || bytes[arenaAt + arena] !== 0xa5) console.log('status -1');
