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

  // The logo that comes with it styles itself inline, which the policy forbids.
  const brand = (system) => ({
    components: { Logo: () => system.React.createElement("span", { className: "brand" }, "ForgeQueue") },
  });

  window.ui = window.SwaggerUIBundle({
    dom_id: "#page",
    urls: [
      { url: "docs/gateway.json", name: "Public API (gateway)" },
      { url: "docs/core.json", name: "Internal API (core)" },
    ],
    layout: "StandaloneLayout",
    presets: [window.SwaggerUIBundle.presets.apis, window.SwaggerUIStandalonePreset],
    plugins: [onlyPublic, brand],
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
