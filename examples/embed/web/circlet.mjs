// Runs models that `circlet compile --target wasm32` made: NAME.wasm, and NAME.json, which says what it takes and gives.

const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
  uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, float16: Uint16Array, float32: Float32Array,
  float64: Float64Array,
};

export class Model {
  // `wasm` is the content of NAME.wasm, `report` that of NAME.json, parsed.
  static async load(wasm, report) {
    const {instance} = await WebAssembly.instantiate(wasm, {});
    return new Model(instance.exports, report);
  }

  constructor(exports, report) {
    this.report = report;
    this.functions = exports;
    this.memory = exports.memory;
    this.top = exports.__heap_base.value;
    this.state = this.allocate(report.bytes.state);
    this.arena = this.allocate(report.bytes.arena);
    this.entries = report.entries.map((entry) => this.bind(entry));
    exports[`${report.name}_init`]?.(this.state);
  }

  // The address of so many bytes, which stay where they are; the memory grows.
  allocate(size) {
    const begin = Math.ceil(this.top / this.report.bytes.alignment) * this.report.bytes.alignment;
    this.top = begin + size;
    const missing = this.top - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / 65536));
    return begin;
  }

  // An entry point with memory for its inputs and outputs, and the structs that say where these are.
  bind(entry) {
    const place = (tensor) => ({...tensor, begin: this.allocate(tensor.bytes)});
    const inputs = entry.inputs.map(place), outputs = entry.outputs.map(place);
    for (const each of outputs) each.told = this.allocate(4 * each.lengths.length);
    const given = this.words(inputs.flatMap((each) => [each.begin, ...each.lengths.map((of) => of.most)]));
    const taken = this.words(outputs.flatMap((each) => each.lengths.length ? [each.begin, each.told] : [each.begin]));
    return {...entry, inputs, outputs, given, taken};
  }

  // Where words of 32 bits lie.
  words(values) {
    const begin = this.allocate(4 * Math.max(values.length, 1));
    new Uint32Array(this.memory.buffer, begin, values.length).set(values);
    return begin;
  }

  view(tensor, shape) {
    return new ARRAYS[tensor.dtype](this.memory.buffer, tensor.begin, shape.reduce((one, other) => one * other, 1));
  }

  // The shape of a value for an input: its property `shape`, or what follows where one length at most is open.
  shape(tensor, value) {
    const fixed = tensor.shape.filter((each) => each >= 0).reduce((one, other) => one * other, 1);
    const found = value.shape ?? (tensor.lengths.length < 2 &&
      tensor.shape.map((each) => each < 0 ? value.length / fixed : each));
    if (!found) throw new Error(`input ${tensor.name}: expected an array with a property shape`);
    const fits = found.length === tensor.shape.length &&
      found.every((each, axis) => tensor.shape[axis] === -1 || tensor.shape[axis] === each) &&
      tensor.lengths.every(({axis, least, most}) => Number.isInteger(found[axis]) && found[axis] >= least &&
        found[axis] <= most) && found.reduce((one, other) => one * other, 1) === value.length;
    if (!fits) {
      throw new Error(`input ${tensor.name}: expected shape [${tensor.shape}] with ${JSON.stringify(tensor.lengths)}, ` +
        `found [${found}] of ${value.length} elements`);
    }
    return found;
  }

  // What the model makes of {name: array, ...}; `signature` says which entry point, by default the first. Arrays that it
  // gives have a property `shape`. Throws what the report says of a run that fails.
  run(inputs, signature = this.entries[0].signature) {
    const entry = this.entries.find((each) => each.signature === signature);
    if (!entry) throw new Error(`no signature ${signature}`);
    let word = entry.given / 4;
    for (const each of entry.inputs) {
      const value = inputs[each.name];
      if (value === undefined) throw new Error(`no input ${each.name}`);
      const shape = this.shape(each, value);
      this.view(each, shape).set(value);
      new Uint32Array(this.memory.buffer).set(each.lengths.map(({axis}) => shape[axis]), word + 1);
      word += 1 + each.lengths.length;
    }
    const status = this.functions[entry.symbol](entry.given, entry.taken, this.arena, this.state);
    if (status) throw new Error(`status ${status}: ${JSON.stringify(entry.statuses[status])}`);
    return Object.fromEntries(entry.outputs.map((each) => [each.name, this.result(each)]));
  }

  // A copy of an output, with its shape.
  result(tensor) {
    const shape = [...tensor.shape], told = new Uint32Array(this.memory.buffer, tensor.told, tensor.lengths.length);
    tensor.lengths.forEach(({axis}, k) => { shape[axis] = told[k]; });
    return Object.assign(this.view(tensor, shape).slice(), {shape});
  }

  reset() {
    this.functions[`${this.report.name}_reset`]?.(this.state);
  }
}
