package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// listRedrives
//
//	@Summary     List redrives
//	@Description Redrives and discards by filter, newest first: those under way, and for 30 days those that have ended. A key that is bound to a user sees what that user's keys have asked for.
//	@ID          listRedrives
//	@Tags        Dead letters
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Redrive] "A page of redrives."
//	@x-access    "read"
//	@Router      /v1/redrives [get]

// getRedrive
//
//	@Summary     Read a redrive
//	@Description How far a redrive, or a discard, by filter is. `waiting` says why it does not go on for now, `error` why it failed.
//	@ID          getRedrive
//	@Tags        Dead letters
//	@Param       id path string true "The redrive's id." Format(uuid)
//	@Success     200 {object} api.Redrive "The redrive as it is now."
//	@x-access    "read"
//	@Router      /v1/redrives/{id} [get]

// cancelRedrive
//
//	@Summary     Cancel a redrive
//	@Description After the answer nothing more is done; what was done stays done. One that has ended stays as it ended, and a repeat changes nothing.
//	@ID          cancelRedrive
//	@Tags        Dead letters
//	@Param       id path string true "The redrive's id." Format(uuid)
//	@Success     200 {object} api.Redrive "The redrive as it ended."
//	@x-access    "manage"
//	@Router      /v1/redrives/{id}/cancel [post]
