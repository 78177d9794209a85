package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/base64"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// secretBytes is the length of the secrets made here; Standard Webhooks asks for 24
// to 64.
const secretBytes = 32

// storeQueue stores a queue's settings. The secret of a queue in push mode is in the response
// to the request that makes or replaces it, and in no other.
func (s *Server) storeQueue(ctx context.Context, owner tenant.ID, request *api.HopQueuePutRequest) (api.Queue, error) {
	if request.Push == nil {
		return s.Dispatcher.PutQueue(ctx, owner, request.Name, request.QueueRequest)
	}
	if field := s.judgePush(request.Push); field != nil {
		return api.Queue{}, problem.Invalid(*field)
	}
	secret := request.Push.Secret
	replace := secret != nil || request.Push.NewSecret
	if secret == nil {
		secret = new(drawSecret())
	}
	place := tenant.QueueKey{Tenant: owner, Name: request.Name}.SecretPlace()
	shown, taken, err := s.Dispatcher.PutPushQueue(ctx, owner, request.Name, request.QueueRequest,
		directory.NewSecret{Sealed: s.Seals.Seal([]byte(*secret), place), Replace: replace})
	if err == nil && taken && shown.Settings.Push != nil {
		shown.Settings.Push.Secret = secret
	}
	return shown, err
}

// judgePush says why a well-formed target is refused.
func (s *Server) judgePush(push *api.PushRequest) *problem.FieldError {
	if s.Seals == nil {
		return &problem.FieldError{Field: "mode", Message: "push is not available: the operator has not set FORGEQUEUE_PUSH_SECRETS_KEY"}
	}
	u, wrong := api.PushURL(push.URL)
	if wrong == "" {
		wrong = s.Guard.Judge(u)
	}
	if wrong != "" {
		return &problem.FieldError{Field: "push.url", Message: wrong}
	}
	return nil
}

func drawSecret() string {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails, by its documentation
	return api.PushSecretPrefix + base64.StdEncoding.EncodeToString(raw)
}
