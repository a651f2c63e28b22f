/* Takes what is new on the page every few seconds, part by part. A part is left as it is while somebody has
   the focus or a selection in it. No sign in here needs escaping in XML: the page stays well-formed. */
(() => {
  "use strict";
  const PAUSE = 4000;
  const bar = document.getElementById("live");
  const button = document.createElement("button");
  const state = document.createElement("span");
  let going = true;

  const show = (text) => { if (state.textContent !== text) state.textContent = text; };
  const label = () => { button.textContent = going ? "Pause updates" : "Go on with updates"; };
  const parts = (root) => [...root.querySelectorAll("[data-part]")];

  function isBusy(part) {
    const chosen = getSelection();
    if (part.contains(document.activeElement)) return true;
    return chosen.type === "Range" ? chosen.containsNode(part, true) : false;
  }

  function take(fresh) {
    const now = parts(document), then = parts(fresh);
    if (now.map((part) => part.id).join() !== then.map((part) => part.id).join()) {
      document.querySelector("main").replaceWith(document.adoptNode(fresh.querySelector("main")));
      return;
    }
    now.forEach((part, index) => {
      const next = then[index];
      for (const open of part.querySelectorAll("details[open]")) {
        const same = next.querySelector("#" + CSS.escape(open.id));
        if (same) same.open = true;
      }
      if (next.innerHTML === part.innerHTML) return;
      if (isBusy(part)) return;
      part.replaceWith(document.adoptNode(next));
    });
  }

  async function look() {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error" });
    if (answer.ok === false) throw new Error(String(answer.status));
    take(new DOMParser().parseFromString(await answer.text(), "text/html"));
  }

  async function go() {
    if (going) if (document.hidden === false) {
      try {
        await look();
        show("");
      } catch (problem) {
        show("No answer from lakehouse ui: this is what it said last.");
      }
    }
    setTimeout(go, PAUSE);
  }

  button.type = "button";
  button.addEventListener("click", () => { going = !going; label(); });
  state.setAttribute("role", "status");
  label();
  bar.replaceChildren(button, " ", state);
  setTimeout(go, PAUSE);
})();
