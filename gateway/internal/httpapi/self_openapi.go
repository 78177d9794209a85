package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// whoami
//
//	@Summary     What your key is
//	@Description The key's tenant, user, scopes and plan. Costs nothing.
//	@ID          whoami
//	@Tags        Self
//	@Success     200 {object} api.Whoami "The key."
//	@x-access    "key"
//	@Router      /v1/whoami [get]

// limits
//
//	@Summary     What you may still do
//	@Description The rates that hold for the caller and the caps on jobs, each with what is left at this moment. Asking costs nothing. With `user` that user's are among them. While Redis is away the rates are those of the gateway that answers.
//	@ID          getLimits
//	@Tags        Self
//	@Param       user query string false "The user whose limits are wanted too; a user-bound key has its own."
//	@Success     200 {object} api.LimitsResponse "Rates and caps."
//	@x-access    "tenant key"
//	@Router      /v1/limits [get]
