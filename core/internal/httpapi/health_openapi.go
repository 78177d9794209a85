package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// livez
//
//	@Summary     Is the process alive
//	@Description 200 as long as it can answer at all.
//	@ID          livez
//	@Tags        Health
//	@Success     200 {object} map[string]string "Alive."
//	@x-access    "public"
//	@Router      /livez [get]

// readyz
//
//	@Summary     Should calls be sent here
//	@Description 200 `ok`, or 200 `degraded` without the database; 503 `draining` once it is about to stop.
//	@ID          readyz
//	@Tags        Health
//	@Success     200 {object} api.Readiness "Yes."
//	@Failure     503 {object} api.Readiness "It is about to stop."
//	@x-access    "public"
//	@Router      /readyz [get]
