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
    exports[`${report.name}_init`](this.state);
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
    return {...entry, inputs, outputs, given: this.struct(inputs), taken: this.struct(outputs)};
  }

  struct(tensors) {
    const begin = this.allocate(4 * Math.max(tensors.length, 1));
    new Uint32Array(this.memory.buffer, begin, tensors.length).set(tensors.map((each) => each.begin));
    return begin;
  }

  view(tensor) {
    const kind = ARRAYS[tensor.dtype];
    return new kind(this.memory.buffer, tensor.begin, tensor.bytes / kind.BYTES_PER_ELEMENT);
  }

  // What the model makes of {name: array, ...}; `signature` says which entry point, by default the first. Throws what
  // the report says of a run that fails.
  run(inputs, signature = this.entries[0].signature) {
    const entry = this.entries.find((each) => each.signature === signature);
    if (!entry) throw new Error(`no signature ${signature}`);
    for (const each of entry.inputs) {
      const value = inputs[each.name], view = this.view(each);
      if (value === undefined) throw new Error(`no input ${each.name}`);
      if (value.length !== view.length) {
        throw new Error(`input ${each.name}: expected ${view.length} elements, found ${value.length}`);
      }
      view.set(value);
    }
    const status = this.functions[entry.symbol](entry.given, entry.taken, this.arena, this.state);
    if (status) throw new Error(`status ${status}: ${JSON.stringify(entry.statuses[status])}`);
    return Object.fromEntries(entry.outputs.map((each) => [each.name, this.view(each).slice()]));
  }

  reset() {
    this.functions[`${this.report.name}_reset`](this.state);
  }
}
