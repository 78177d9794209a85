package operations

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net/url"

	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// secretBytes is the length of the secrets made here; Standard Webhooks asks for 24
// to 64.
const secretBytes = 32

// storeQueue stores a queue's settings. The secret of a queue in push mode is in the response
// to the request that makes or replaces it, and in no other.
func (o *Operations) storeQueue(ctx context.Context, owner tenant.ID, request *hop.Put[api.QueueRequest]) (api.Queue, error) {
	if request.Value.Push == nil {
		shown, _, err := o.putSettings(ctx, owner, request, queues.NewSecret{})
		return shown, err
	}
	broker, field := o.judgePush(request.Value.Push)
	if field != nil {
		return api.Queue{}, problem.Invalid(*field)
	}
	key := tenant.QueueKey{Tenant: owner, Name: request.Name}
	stored := queues.NewSecret{}
	if broker != nil { // from here on the URL is without user and password
		push := *request.Value.Push
		push.URL, request.Value.Push = broker.URL.String(), &push
		if stored.NewCredentials = broker.HasUser; broker.User != "" {
			stored.Credentials = o.Targets.Seals.Seal([]byte(broker.User+"\x00"+broker.Password), key.CredentialsPlace())
		}
	}
	secret := request.Value.Push.Secret
	stored.Replace = secret != nil || request.Value.Push.NewSecret
	if secret == nil {
		secret = new(drawSecret())
	}
	stored.Sealed = o.Targets.Seals.Seal([]byte(*secret), key.SecretPlace())
	shown, taken, err := o.putSettings(ctx, owner, request, stored)
	if err == nil && taken && shown.Settings.Push != nil {
		shown.Settings.Push.Secret = secret
	}
	return shown, err
}

// putSettings stores a queue's settings, and says whether the new secret is now its secret. They are in force here at
// once, in other cores within a refresh, or at once with Redis.
func (o *Operations) putSettings(ctx context.Context, owner tenant.ID, request *hop.Put[api.QueueRequest], secret queues.NewSecret) (shown api.Queue, taken bool, err error) {
	if taken, err = o.Store.Queues.PutPush(ctx, owner, request.Name, request.Value, secret); err != nil {
		return shown, false, err
	}
	if err := o.Engine.Publisher.SettingsChanged(ctx); err != nil {
		return shown, taken, err
	}
	shown, err = o.Engine.Explainer.Queue(ctx, owner, request.Name)
	return shown, taken, err
}

// judgePush says why a well-formed target is refused. The broker is nil where the target is none.
func (o *Operations) judgePush(push *api.PushRequest) (broker *api.Broker, field *problem.FieldError) {
	if o.Targets.Seals == nil {
		return nil, &problem.FieldError{Field: "mode", Message: "push is not available: the operator has not set FORGEQUEUE_PUSH_SECRETS_KEY"}
	}
	var u *url.URL
	var wrong string
	if !api.IsBrokerURL(push.URL) {
		u, wrong = api.PushURL(push.URL)
	} else if broker, wrong = api.BrokerURL(push.URL); wrong == "" {
		u = broker.URL
		wrong = o.Targets.Brokers.Lacks(u)
	}
	if wrong == "" {
		wrong = o.Targets.Guard.Judge(u)
	}
	if wrong != "" {
		return nil, &problem.FieldError{Field: "push.url", Message: wrong}
	}
	return broker, nil
}

func drawSecret() string {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails, by its documentation
	return api.PushSecretPrefix + base64.StdEncoding.EncodeToString(raw)
}
