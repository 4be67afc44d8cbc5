// Plots.
for (const data of document.querySelectorAll('script[id^="data-"]')) {
  const figure = JSON.parse(data.textContent);
  const plot = document.getElementById(data.id.replace("data-", "plot-"));
  Plotly.newPlot(plot, figure.data, figure.layout, { displayModeBar: false });
  // Not plotly's own `responsive`: it misses changes of width that are none of the window's.
  new ResizeObserver(() => Plotly.Plots.resize(plot)).observe(plot);
}

// Graph: a mouse, a finger or the keyboard chooses an edge, and the tip says how sure it is.
for (const graph of document.querySelectorAll(".graph")) {
  const edges = [...graph.querySelectorAll(".edge")];
  const tip = graph.parentElement.querySelector(".tip");
  const choose = (edge) => {
    for (const other of edges) other.classList.toggle("chosen", other === edge);
    tip.hidden = !edge;
    if (!edge) return;
    const box = edge.querySelector(".line").getBoundingClientRect();
    const frame = graph.parentElement.getBoundingClientRect();
    tip.textContent = edge.getAttribute("aria-label");
    tip.style.left = `${box.x + box.width / 2 - frame.x}px`;
    tip.style.top = `${box.y + box.height / 2 - frame.y}px`;
  };
  edges.forEach((edge, i) => {
    edge.querySelector("title").remove(); // the tip stands in for it
    edge.addEventListener("pointerenter", () => choose(edge));
    edge.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && choose(edges.find((e) => e === document.activeElement)));
    edge.addEventListener("focus", () => choose(edge));
    edge.addEventListener("blur", () => choose(null));
    edge.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") choose(null);
      if (!step) return;
      event.preventDefault();
      const next = edges[(i + step + edges.length) % edges.length];
      edge.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  });
}

// Players: all agents of a target move together, in real time.
const calm = matchMedia("(prefers-reduced-motion: reduce)");
for (const clip of document.querySelectorAll(".clip")) {
  const { seconds, agents } = JSON.parse(clip.querySelector("script").textContent);
  const lanes = [...clip.querySelectorAll(".lane")];
  const [button, slider, clock] = ["button", "input", "output"].map((name) => clip.querySelector(name));
  const last = Number(slider.max);
  let begun = null; // the moment at which step 0 was or would have been shown; null while it stands
  const show = (step) => {
    slider.value = step;
    clock.textContent = `step ${step} of ${last}, ${(step * seconds).toFixed(1)} s`;
    slider.setAttribute("aria-valuetext", clock.textContent);
    agents.forEach(({ x, angle, ended }, i) => {
      const at = Math.min(step, x.length - 1);
      lanes[i].querySelector(".cart").setAttribute("transform", `translate(${100 * x[at]} 0)`);
      lanes[i].querySelector(".pole").setAttribute("transform", `translate(0 -24) rotate(${angle[at]})`);
      lanes[i].classList.toggle("over", ended !== null && step >= ended);
    });
  };
  const stop = () => {
    begun = null;
    button.textContent = "Play";
  };
  const tick = (now) => {
    if (begun === null) return;
    const step = Math.min(last, Math.max(0, Math.floor((now - begun) / 1000 / seconds)));
    show(step);
    if (step < last) requestAnimationFrame(tick);
    else stop();
  };
  const play = () => {
    const from = Number(slider.value) < last ? Number(slider.value) : 0;
    begun = performance.now() - from * seconds * 1000;
    button.textContent = "Pause";
    requestAnimationFrame(tick);
  };
  button.addEventListener("click", () => (begun === null ? play() : stop()));
  slider.addEventListener("input", () => {
    stop();
    show(Number(slider.value));
  });
  show(0);
  // It begins once, when it is first seen, and not for those who asked for less motion.
  const seen = new IntersectionObserver(
    ([entry]) => {
      if (!entry.isIntersecting) return;
      seen.disconnect();
      if (!calm.matches) play();
    },
    { threshold: 0.6 },
  );
  seen.observe(clip.querySelector(".lanes"));
}
