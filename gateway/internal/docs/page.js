// Starts Swagger UI. A file of its own, because the page's policy runs no inline
// script.
(function () {
  "use strict";

  // Core answers signed calls only, and a browser cannot sign.
  const isCore = (system) => {
    const info = system.specSelectors.info();
    return Boolean(info) && String(info.get("title")).endsWith(" core");
  };
  const onlyPublic = {
    statePlugins: {
      spec: { wrapSelectors: { allowTryItOutFor: (_, system) => () => !isCore(system) } },
    },
    wrapComponents: {
      AuthorizeBtnContainer: (Original, system) => (props) =>
        isCore(system) ? null : system.React.createElement(Original, props),
    },
  };

  // The page calls the gateway that serves it, not the address that the document names for others.
  const sameOrigin = {
    statePlugins: {
      spec: {
        wrapActions: {
          updateSpec: (original) => (text) => {
            try {
              const spec = JSON.parse(text);
              delete spec.servers;
              return original(JSON.stringify(spec));
            } catch {
              return original(text);
            }
          },
        },
      },
    },
  };

  // The logo that comes with it styles itself inline, which the policy forbids.
  const brand = (system) => ({
    components: { Logo: () => system.React.createElement("span", { className: "brand" }, "ForgeQueue") },
  });

  // The filter finds operations by any words of their group, method, path, summary or name.
  const filter = (system) => ({
    fn: {
      opsFilter: (groups, phrase) => {
        const words = String(phrase).toLowerCase().split(/\s+/).filter(Boolean);
        const found = (group) => (one) => {
          const text = [group, one.get("method"), one.get("path"),
            one.getIn(["operation", "summary"]), one.getIn(["operation", "operationId"])].join(" ").toLowerCase();
          return words.every((word) => text.includes(word));
        };
        return groups
          .map((group, name) => group.set("operations", group.get("operations").filter(found(name))))
          .filter((group) => group.get("operations").size > 0);
      },
    },
    components: {
      FilterContainer: () => {
        const now = system.layoutSelectors.currentFilter();
        return system.React.createElement("div", { className: "find" }, system.React.createElement("input", {
          type: "search", placeholder: "Filter: words of a path, a summary or a name", "aria-label": "Filter the operations",
          defaultValue: typeof now === "string" ? now : "",
          onChange: (event) => system.layoutActions.updateFilter(event.target.value || true),
        }));
      },
    },
  });

  // The language of the samples that was chosen last.
  let language = 0;

  // Code samples of an operation, and its problems in one table: they all have one shape.
  const answers = (system) => {
    const { createElement: h, Fragment, useState } = system.React;

    const Samples = ({ samples }) => {
      const [chosen, choose] = useState(Math.min(language, samples.length - 1));
      return h("div", { className: "samples" },
        h("div", { className: "opblock-section-header" }, h("h4", null, "Code samples")),
        h("div", { role: "tablist", className: "languages" }, samples.map((one, at) => h("button", {
          key: one.label, type: "button", role: "tab", "aria-selected": at === chosen,
          onClick: () => { language = at; choose(at); },
        }, one.label))),
        h("pre", { tabIndex: 0 }, samples[chosen].source));
    };

    // The code samples, by operation; they come once.
    let samplesOf = {};
    fetch("docs/samples.json").then((answer) => answer.json()).then((all) => { samplesOf = all; }).catch(() => { /* none are shown */ });

    // An operation's problem codes by status: x-codes lists them, some by groups of the shared response.
    const codesOf = (operation) => {
      const shared = system.specSelectors.specJson().getIn(["components", "responses", "Failure"]);
      if (!shared || !operation.get("x-codes")) return [];
      const codes = operation.get("x-codes").flatMap((one) => shared.getIn(["x-code-groups", one]) || [one]).toSet();
      return shared.get("x-codes").map((all) => all.filter((code) => codes.has(code)).toArray()).filter((all) => all.length > 0)
        .entrySeq().toArray();
    };

    const Problems = ({ rows }) => h("div", { className: "problems" },
      h("div", { className: "opblock-section-header" }, h("h4", null, "Problems")),
      h("p", null, "All have one shape, ", h("code", null, "application/problem+json"), " (schema ", h("b", null, "Problem"),
        "): read ", h("code", null, "code"), ". Each code has a page:"),
      h("table", null, h("tbody", null, rows.map(([status, codes]) => h("tr", { key: status },
        h("th", { scope: "row" }, status),
        h("td", null, codes.map((code) => h("a", { key: code, href: "problems/" + code, target: "_blank", rel: "noopener" }, code))))))));

    return {
      wrapComponents: {
        responses: (Original) => (props) => {
          if (isCore(system)) return h(Original, props);
          const operation = system.specSelectors.specJson().getIn(props.specPath.butLast());
          const rows = operation ? codesOf(operation) : [];
          const isShared = (status) => String(operation && operation.getIn(["responses", status, "$ref"]) || "").startsWith("#/components/responses/");
          const own = props.responses.filter((_, status) => !isShared(status));
          const samples = operation && samplesOf[operation.get("operationId")];
          return h(Fragment, null,
            samples ? h(Samples, { samples }) : null,
            h(Original, { ...props, responses: own }),
            rows.length ? h(Problems, { rows: rows.sort() }) : null);
        },
      },
    };
  };

  // The job types of the tenant whose key was entered: an operation for each, above the others. A key that may not read
  // them adds none.
  const types = (system) => {
    const own = "Your job types";
    let asked = 0; // only the last key's answer counts

    const show = (document) => {
      const spec = system.specSelectors.specJson().toJS();
      if (!spec.paths || isCore(system)) return;
      for (const path of Object.keys(spec.paths)) if (path.includes("#")) delete spec.paths[path];
      spec.tags = (spec.tags || []).filter((tag) => tag.name !== own);
      const schemas = spec.components.schemas;
      for (const name of Object.keys(schemas)) if (name.startsWith("payload.")) delete schemas[name];
      if (document && Object.keys(document.paths).length > 0) {
        spec.tags = [...document.tags, ...spec.tags];
        for (const [path, item] of Object.entries(document.paths)) { // their scheme has another name
          for (const operation of Object.values(item)) if (operation.security) operation.security = spec.security;
          spec.paths[path] = item;
        }
        Object.assign(schemas, document.components.schemas);
      }
      system.specActions.updateSpec(JSON.stringify(spec));
    };

    const load = async (key) => {
      const turn = ++asked;
      let document = null;
      try {
        const answer = key && await fetch("v1/openapi", { headers: { Authorization: "Bearer " + key } });
        if (answer && answer.ok) document = await answer.json();
      } catch { /* the gateway is away: the page is still good to read */ }
      if (turn === asked) show(document);
    };

    return {
      statePlugins: {
        auth: {
          wrapActions: {
            authorize: (original) => (payload) => {
              const result = original(payload);
              load(payload.apiKey && payload.apiKey.value);
              return result;
            },
            logout: (original) => (payload) => {
              const result = original(payload);
              load(null);
              return result;
            },
          },
        },
      },
    };
  };

  const place = (one) => one.getIn(["operation", "x-order"]) || 0;

  window.ui = window.SwaggerUIBundle({
    dom_id: "#page",
    urls: [
      { url: "docs/gateway.json", name: "Public API (gateway)" },
      { url: "docs/core.json", name: "Internal API (core)" },
    ],
    layout: "StandaloneLayout",
    presets: [window.SwaggerUIBundle.presets.apis, window.SwaggerUIStandalonePreset],
    plugins: [onlyPublic, sameOrigin, brand, filter, answers, types],
    filter: true,
    operationsSorter: (one, other) => place(one) - place(other),
    deepLinking: true,
    displayRequestDuration: true,
    docExpansion: "list",
    defaultModelsExpandDepth: 0,
    // A key is not for the disk: it is forgotten when the page is left.
    persistAuthorization: false,
    // Nobody else is asked whether the document is good.
    validatorUrl: null,
    queryConfigEnabled: false,
  });
})();
