"""Loops over numbers: integer algorithms, nested loops, loops that end on a tolerance."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.models.program import F32, I32, f32, i32, model, normal


@model(I32, calls=[(27,), (1,), (97,)])
def collatz(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """Collatz: If in While; the number of steps and the peak."""
    steps, peak = 0, n
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        peak = tf.maximum(peak, n)
        steps += 1
    return {"steps": steps, "peak": peak}


@model(I32, calls=[(30,), (1,), (0,)])
def collatz_longest(limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """The start below a limit with the longest Collatz sequence: If in While in While."""
    best, longest = 0, -1
    start = 1
    while start <= limit:
        n, steps = start, 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        if steps > longest:
            best, longest = start, steps
        start += 1
    return {"best": best, "longest": longest}


@model(I32, I32, calls=[(48, 36), (17, 5), (0, 9), (9, 0), (-12, 18)])
def gcd(a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
    """Greatest common divisor by Euclid's algorithm: the carries (a, b) -> (b, a mod b)."""
    while b != 0:
        a, b = b, a % b
    return {"gcd": tf.abs(a)}


@model(I32, calls=[(0,), (1,), (255,), (0x5A5A5A5A,)])
def bit_count(n: tf.Tensor) -> dict[str, tf.Tensor]:
    """How many bits of a non-negative number are set."""
    count = 0
    while n > 0:
        count += n % 2
        n //= 2
    return {"count": count}


@model(I32, I32, calls=[(0xACE1, 10), (1, 0), (0x1234, 1000)])
def shift_register(state: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A 16-bit Galois feedback shift register: bitwise operators in a loop."""
    for _ in tf.range(n):
        low = state % 2
        state = tf.bitwise.right_shift(state, 1)
        state = tf.bitwise.bitwise_xor(state, low * 0xB400)
    return {"state": state}


@model(I32, calls=[(50,), (0,), (4,)])
def prime_sieve(limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """The sieve of Eratosthenes over 64 numbers: WHERE-free masks in a nested loop."""
    numbers = tf.range(64)
    prime = numbers >= 2
    n = 2
    while n * n <= limit:
        if prime[n]:
            multiple = n * n
            while multiple <= limit:
                prime = prime & (numbers != multiple)
                multiple += n
        n += 1
    prime = prime & (numbers <= limit)
    return {"prime": prime, "count": tf.reduce_sum(tf.cast(prime, tf.int32))}


@model(i32(8), calls=[([5, 1, 4, 2, 8, -3, 7, 0],), ([1, 2, 3, 4, 5, 6, 7, 8],), ([8, 7, 6, 5, 4, 3, 2, 1],)])
def bubble_sort(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """Bubble sort with an early end: a swap by tensor_scatter_nd_update under a condition."""
    swapped, passes = tf.constant(True), 0
    while swapped:
        swapped = False
        for i in tf.range(7):
            if x[i] > x[i + 1]:
                x = tf.tensor_scatter_nd_update(x, [[i], [i + 1]], [x[i + 1], x[i]])
                swapped = True
        passes += 1
    return {"sorted": x, "passes": passes}


@model(i32(10), I32, calls=[([1, 3, 4, 9, 11, 20, 21, 30, 44, 50], n) for n in (9, 50, 1, 2, 99)])
def binary_search(table: tf.Tensor, wanted: tf.Tensor) -> dict[str, tf.Tensor]:
    """Binary search: reads by a computed index, and two ways to go on."""
    low, high = tf.constant(0), 9
    while low < high:
        middle = (low + high) // 2
        if table[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return {"index": low, "found": tf.equal(table[low], wanted)}


@model(F32, calls=[(2.0,), (1e6,), (0.25,), (1.0,)])
def newton_sqrt(x: tf.Tensor) -> dict[str, tf.Tensor]:
    """A square root by Newton's method, until a step changes little."""
    guess, change, steps = tf.maximum(x, 1.0), x + 1.0, 0
    while change > 1e-3 * guess:
        new = 0.5 * (guess + x / guess)
        change = tf.abs(new - guess)
        guess = new
        steps += 1
    return {"root": guess, "steps": steps}


_RANDOM = normal(4, 4, seed=1)
_SYMMETRIC = _RANDOM + _RANDOM.T + np.diag(np.array([9, 5, 3, 1], np.float32))


@model(f32(4, 4), calls=[(_SYMMETRIC,), ([[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]],)])
def power_iteration(matrix: tf.Tensor) -> dict[str, tf.Tensor]:
    """The largest eigenvalue of a matrix: a product and a norm in a loop that ends on a tolerance."""
    vector = tf.ones([4, 1]) * 0.5
    value, change, steps = 0.0, tf.constant(1.0), 0
    while change > 1e-3 and steps < 40:
        product = tf.matmul(matrix, vector)
        new = tf.norm(product)
        vector = product / new
        change = tf.abs(new - value)
        value = new
        steps += 1
    return {"value": value, "vector": vector, "steps": steps}


@model(i32(2, 2), I32, calls=[([[1, 1], [1, 0]], n) for n in (10, 0, 1, 30)])
def matrix_power(base: tf.Tensor, exponent: tf.Tensor) -> dict[str, tf.Tensor]:
    """Powers of an integer matrix by repeated squaring."""
    result = tf.eye(2, dtype=tf.int32)
    while exponent > 0:
        if exponent % 2 == 1:
            result = tf.reduce_sum(result[:, :, tf.newaxis] * base[tf.newaxis], axis=1)
        base = tf.reduce_sum(base[:, :, tf.newaxis] * base[tf.newaxis], axis=1)
        exponent //= 2
    return {"power": result}


_CORNERS = np.array([[0, 0], [3, 3], [0, 3], [3, 0]] * 2, np.float32)


@model(f32(8, 2), calls=[(normal(8, 2, seed=2, scale=0.3) + _CORNERS,)])
def k_means(points: tf.Tensor) -> dict[str, tf.Tensor]:
    """Clusters of points, until no point changes its cluster."""
    centres = points[:3]
    nearest, moved, turns = tf.fill([8], -1), tf.constant(True), 0
    while moved:
        distances = tf.reduce_sum(tf.square(points[:, tf.newaxis] - centres[tf.newaxis]), axis=2)
        new = tf.argmin(distances, axis=1, output_type=tf.int32)
        moved = tf.reduce_any(new != nearest)
        nearest = new
        sums = tf.math.unsorted_segment_sum(points, nearest, 3)
        centres = sums / tf.math.unsorted_segment_sum(tf.ones([8, 1]), nearest, 3)
        turns += 1
    return {"centres": centres, "nearest": nearest, "turns": turns}


@model(f32(2, 2), I32, calls=[([[0.5, 0.25], [0.125, 0.5]], n) for n in (5, 0)])
def matmul_loop(matrix: tf.Tensor, n: tf.Tensor) -> dict[str, tf.Tensor]:
    """A matrix product of carried values in each turn."""
    result = tf.eye(2)
    for _ in tf.range(n):
        result = tf.matmul(result, matrix) + 0.5
    return {"result": result}


@model(f32(3, 5), f32(3, 5), I32, calls=[
    ([[-2, -1, -0.5, 0, 0.5]] * 3, [[-1.0] * 5, [0.1] * 5, [0.75] * 5], n) for n in (30, 0, 1)
])
def mandelbrot(re: tf.Tensor, im: tf.Tensor, limit: tf.Tensor) -> dict[str, tf.Tensor]:
    """Escape times of points of a plane: a vectorised choice in each turn."""
    x, y = re, im
    times = tf.zeros([3, 5], tf.int32)
    for _ in tf.range(limit):
        inside = x * x + y * y <= 4.0
        times = tf.where(inside, times + 1, times)
        x, y = tf.where(inside, x * x - y * y + re, x), tf.where(inside, 2.0 * x * y + im, y)
    return {"times": times}


_GLIDER = [[0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [1, 1, 1, 0, 0, 0], [0] * 6, [0] * 6, [0] * 6]


@model(f32(6, 6), I32, calls=[(_GLIDER, n) for n in (4, 0, 1, 9)])
def game_of_life(board: tf.Tensor, steps: tf.Tensor) -> dict[str, tf.Tensor]:
    """Conway's game: a convolution counts neighbours in each turn."""
    kernel = tf.constant([[1, 1, 1], [1, 0.5, 1], [1, 1, 1]], tf.float32)[:, :, tf.newaxis, tf.newaxis]
    for _ in tf.range(steps):
        sums = tf.nn.conv2d(board[tf.newaxis, :, :, tf.newaxis], kernel, 1, "SAME")[0, :, :, 0]
        board = tf.cast((sums > 2.0) & (sums < 4.0), tf.float32)
    return {"board": board, "alive": tf.reduce_sum(board)}


@model(I32, I32, calls=[(3, 4), (0, 4), (3, 0), (1, 1)])
def nested_while(rows: tf.Tensor, columns: tf.Tensor) -> dict[str, tf.Tensor]:
    """While in While; the inner loop may turn not at all."""
    total = 0
    for i in tf.range(rows):
        for j in tf.range(columns):
            total += i * 10 + j
    return {"total": total}


@model(I32, f32(2), calls=[(3, [1.0, -1.0]), (0, [1.0, 2.0])])
def triple_while(n: tf.Tensor, x: tf.Tensor) -> dict[str, tf.Tensor]:
    """While in While in While over a vector."""
    count = 0
    for i in tf.range(n):
        for j in tf.range(i + 1):
            k = j
            while k > 0:
                x = x * 0.5 + tf.cast(i, tf.float32)
                k -= 1
                count += 1
    return {"x": x, "count": count}


@model(i32(6), I32, calls=[([3, 1, 4, 1, 5, 9], n) for n in (4, 2, 9)])
def break_continue(x: tf.Tensor, stop: tf.Tensor) -> dict[str, tf.Tensor]:
    """A loop with break and continue, which become flags."""
    total, index = 0, tf.constant(0)
    while index < 6:
        value = x[index]
        index += 1
        if value == stop:
            break
        if value % 2 == 0:
            continue
        total += value
    return {"total": total, "index": index}
