// A canvas to draw on, for a model of images (1, h, w, c) that gives a score for each class.

const SIZES = {float32: 4, int8: 1, uint8: 1};

export function isOfImages(report) {
  const [entry] = report.entries, [input] = entry.inputs;
  return report.entries.length === 1 && entry.inputs.length === 1 && entry.outputs.length === 1 &&
    input.dtype in SIZES && input.lengths.length === 0 && [3, 4].includes(input.shape.length) && input.shape[0] === 1 &&
    [1, 3].includes(input.shape[3] ?? 1) && Math.min(input.shape[1], input.shape[2]) >= 8;
}

export function draw(model, report, main, tell) {
  main.innerHTML = '<div><canvas id="pad"></canvas><br><button id="clear">Clear</button></div><div id="scores"></div>';
  const [input] = report.entries[0].inputs, [output] = report.entries[0].outputs;
  const [, height, width, channels = 1] = input.shape;
  const pad = document.getElementById('pad'), scores = document.getElementById('scores');
  [pad.width, pad.height] = [width, height];
  const pen = pad.getContext('2d', {willReadFrequently: true});

  function clear() {
    pen.fillStyle = 'black';
    pen.fillRect(0, 0, width, height);
    show();
  }

  function show() {
    const pixels = pen.getImageData(0, 0, width, height).data;
    const image = Float32Array.from({length: input.bytes / SIZES[input.dtype]},
      (_, k) => pixels[4 * Math.floor(k / channels)] / 255);
    const scale = input.scales?.[0], zero = input.zero_points?.[0] ?? 0;
    const given = scale ? image.map((each) => Math.round(each / scale) + zero) : image;
    const begin = performance.now();
    const found = Array.from(model.run({[input.name]: given})[output.name], Number);
    const time = performance.now() - begin;
    const best = found.indexOf(Math.max(...found)), least = Math.min(...found, 0), range = found[best] - least || 1;
    scores.innerHTML = found.map((each, k) => `<div class="row ${k === best ? 'best' : ''}"><span>${k}</span>` +
      `<div class="bar" style="width: ${100 * (each - least) / range}%"></div></div>`).join('');
    scores.dataset.best = best;
    scores.dataset.values = JSON.stringify(found);
    tell(time);
  }

  let last = null;
  pad.addEventListener('pointerdown', (event) => { last = at(event); });
  addEventListener('pointerup', () => { last = null; });
  pad.addEventListener('pointermove', (event) => {
    if (!last) return;
    const next = at(event);
    [pen.strokeStyle, pen.lineWidth, pen.lineCap] = ['white', width / 12, 'round'];
    pen.beginPath();
    pen.moveTo(...last);
    pen.lineTo(...next);
    pen.stroke();
    last = next;
    show();
  });

  function at(event) {
    const box = pad.getBoundingClientRect();
    return [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * height / box.height];
  }

  pad.addEventListener('drawn', show);
  document.getElementById('clear').addEventListener('click', clear);
  clear();
}
