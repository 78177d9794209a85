package broker

import (
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Target is where messages go, and as whom.
type Target struct {
	Tenant         tenant.ID
	Broker         *api.Broker
	User, Password string
}

// Message is one execution of a job as it is sent.
type Message struct {
	// ID is the same for each attempt of a job.
	ID string
	// Delivery is the same for repeats of one execution only.
	Delivery string
	// Once is what the broker may recognise a repeat by, where it does so: Delivery, or ID where a message that was
	// sent by an earlier attempt makes this one needless.
	Once string
	// Type is the job's, CorrelationID may be empty.
	Type, CorrelationID string
	Headers             []Header
	Body                []byte
}

// Header is one header of a message.
type Header struct{ Name, Value string }

// RefusalError is a failure that the broker has told, or that it is to blame for.
type RefusalError struct {
	// Kind is the type of the job's error, Message a sentence without addresses, Detail what the broker said.
	Kind, Message, Detail string
	// Healthy says that the broker works, but not for this message; Permanent that a repeat cannot help, Retry that
	// one at once may.
	Healthy, Permanent, Retry bool
}

func (r *RefusalError) Error() string { return "broker: " + r.Kind + ": " + r.Message }

// maxDetail is how much of a broker's text is kept, in bytes.
const maxDetail = 1024

func detail(text string) string {
	return text[:min(len(text), maxDetail)]
}

// Kinds of refusals.
const (
	kindAuthentication = "authentication_failed"
	kindAccess         = "access_refused"
	kindUnroutable     = "unroutable"
	kindMissing        = "no_destination"
	kindTooLarge       = "message_too_large"
	kindNotConfirmed   = "not_confirmed"
	kindRefused        = "answer_refused"
	kindTooMany        = "too_many_connections"
	kindTLS            = "tls"
)

func lost() *RefusalError {
	return &RefusalError{Kind: "connection_lost", Message: "the connection to the broker was lost", Retry: true}
}

func unauthenticated(text string) *RefusalError {
	return &RefusalError{Kind: kindAuthentication, Message: "the broker refused the user or password", Detail: detail(text)}
}

func accessRefused(text string) *RefusalError {
	return &RefusalError{Kind: kindAccess, Message: "the broker does not let this user publish there", Detail: detail(text), Healthy: true}
}

func tooLarge() *RefusalError {
	return &RefusalError{Kind: kindTooLarge, Message: "the message is larger than the broker takes", Healthy: true, Permanent: true}
}
