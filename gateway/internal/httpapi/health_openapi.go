package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// root
//
//	@Summary     What this is
//	@Description The product's name, and where its parts are.
//	@ID          root
//	@Tags        Health
//	@Success     200 {object} httpapi.landing "Where to go."
//	@x-access    "public"
//	@Router      / [get]

// livez
//
//	@Summary     Is the process alive
//	@Description 200 as long as it can answer at all. It looks at nothing else, or an outage of core would restart every gateway.
//	@ID          livez
//	@Tags        Health
//	@Success     200 {object} httpapi.alive "Alive."
//	@x-access    "public"
//	@Router      /livez [get]

// readyz
//
//	@Summary     Should requests be sent here
//	@Description 200 `ok`, or 200 `degraded` where core or Redis is away: another gateway would do no better. 503 `starting` until core has answered for the first time, 503 `draining` at the end.
//	@ID          readyz
//	@Tags        Health
//	@Success     200 {object} api.Readiness "Yes."
//	@Failure     503 {object} api.Readiness "Not yet, or not any more."
//	@x-access    "public"
//	@Router      /readyz [get]
