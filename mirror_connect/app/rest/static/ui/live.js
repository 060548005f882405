// What is asked again and again: only while somebody can see the page, one request of a kind at a time.

const watches = new Set();

/** Calls `load` at once and then every `everyMs`; gives what ends that, and `now` to ask at once. */
export function watch(load, everyMs) {
  const one = { load, everyMs, timer: 0, running: false, again: false, ended: false };
  watches.add(one);
  run(one);
  return {
    now: () => run(one),
    end() {
      one.ended = true;
      clearTimeout(one.timer);
      watches.delete(one);
    },
  };
}

async function run(one) {
  clearTimeout(one.timer);
  if (one.running) {
    one.again = true;
    return;
  }
  one.running = true;
  try {
    await one.load();
  } finally {
    one.running = false;
    if (!one.ended && one.again) {
      one.again = false;
      run(one);
    } else if (!one.ended && !document.hidden) {
      one.timer = setTimeout(run, one.everyMs, one);
    }
  }
}

document.addEventListener("visibilitychange", () => {
  for (const one of watches) {
    if (document.hidden) clearTimeout(one.timer);
    else run(one);
  }
});
