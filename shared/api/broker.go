package api

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// What ends a job that was sent to a broker.
const (
	// SettleConfirm completes the job when the broker has confirmed the message.
	SettleConfirm = "confirm"
	// SettleWorker leaves the lease to the message's consumer, which ends the job as a worker does.
	SettleWorker = "worker"
)

// Schemes of brokers' URLs. Those without TLS are only for addresses that the operator allows.
const (
	SchemeAMQP     = "amqp"
	SchemeAMQPS    = "amqps"
	SchemeNATS     = "nats"
	SchemeNATSTLS  = "tls"
	SchemeKafka    = "kafka"
	SchemeKafkaTLS = "kafka+tls"
)

// How a user's password is given to Kafka, see BrokerURL.
const (
	SASLPlain    = "plain"
	SASLScram256 = "scram-sha-256"
	SASLScram512 = "scram-sha-512"
)

// Bounds of a broker's names and credentials, in bytes: AMQP's short strings, Kafka's topics.
const (
	maxBrokerName   = 255
	maxKafkaTopic   = 249
	maxBrokerSecret = 1024
)

// Broker is where a queue sends its jobs, read from its URL.
type Broker struct {
	// URL is without user and password.
	URL *url.URL
	// VHost, Exchange and Key are of AMQP. An empty Exchange is the default one, whose keys are names of queues.
	VHost, Exchange, Key string
	// Subject is of NATS, a JetStream takes it.
	Subject string
	// Topic and SASL are of Kafka.
	Topic, SASL string
	// User and Password are those of the URL; HasUser says that it has them, empty ones too.
	User, Password string
	HasUser        bool
}

// IsBrokerURL says whether a URL begins with a scheme of a broker.
func IsBrokerURL(text string) bool {
	scheme, _, _ := strings.Cut(text, "://")
	switch scheme {
	case SchemeAMQP, SchemeAMQPS, SchemeNATS, SchemeNATSTLS, SchemeKafka, SchemeKafkaTLS:
		return true
	}
	return false
}

// BrokerURL reads the URL of a broker, or says what is wrong with it:
//
//	amqps://user:password@host:5671/exchange/key?vhost=name
//	tls://user:password@host:4222/subject
//	kafka+tls://user:password@host:9093/topic?sasl=scram-sha-512
//
// and amqp, nats and kafka for the same without TLS. Parts of the path may be percent-encoded. Whether its
// address may be called is for core to say.
func BrokerURL(text string) (broker *Broker, wrong string) {
	if len(text) > MaxPushURL || !visible(text) {
		return nil, "must be of visible ASCII characters, at most 2048"
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "": // not the error's text, which has the password
		return nil, "must be a URL such as amqps://user:password@example.com/exchange/key, with characters such as / and @ of a name or password percent-encoded"
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, "must not have a fragment; a # in a name or password is %23"
	case strings.HasSuffix(u.Host, ":") || !validPort(u.Port()):
		return nil, wrongPort
	case !validHost(u.Hostname()):
		return nil, wrongHost + "; one host, for Kafka too: the cluster names the others"
	}
	broker = &Broker{URL: u, HasUser: u.User != nil}
	broker.User = u.User.Username()
	broker.Password, _ = u.User.Password()
	u.User = nil
	if len(broker.User) > maxBrokerName || len(broker.Password) > maxBrokerSecret || strings.ContainsRune(broker.User+broker.Password, 0) {
		return nil, "must have a user of at most 255 bytes and a password of at most 1024, without NUL"
	}
	if broker.User == "" && broker.Password != "" {
		return nil, "has a password without a user"
	}
	if wrong = broker.place(); wrong != "" {
		return nil, wrong
	}
	return broker, ""
}

// place reads path and query.
func (b *Broker) place() (wrong string) {
	parts, err := b.path()
	query, queryErr := url.ParseQuery(b.URL.RawQuery)
	if err != nil || queryErr != nil {
		return "has a % that is not followed by two hexadecimal digits"
	}
	option := map[string]string{SchemeAMQP: "vhost", SchemeAMQPS: "vhost", SchemeKafka: "sasl", SchemeKafkaTLS: "sasl"}[b.URL.Scheme]
	for _, name := range slices.Sorted(maps.Keys(query)) {
		values := query[name]
		if option == "" || name != option || len(values) != 1 {
			return "has the query parameter " + name + ": " + map[string]string{
				"vhost": "only vhost may be there, once", "sasl": "only sasl may be there, once", "": "none may be there",
			}[option]
		}
	}
	switch b.URL.Scheme {
	case SchemeAMQP, SchemeAMQPS:
		return b.amqp(parts, query)
	case SchemeNATS, SchemeNATSTLS:
		return b.nats(parts)
	}
	return b.kafka(parts, query)
}

func (b *Broker) path() ([]string, error) {
	parts := strings.Split(strings.TrimPrefix(b.URL.EscapedPath(), "/"), "/")
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func (b *Broker) amqp(parts []string, query url.Values) (wrong string) {
	if len(parts) != 2 {
		return "must have a path of two parts, /exchange/key; // and the name of a queue for the default exchange, %2F for a / in a name"
	}
	b.Exchange, b.Key, b.VHost = parts[0], parts[1], "/"
	if query.Has("vhost") {
		b.VHost = query.Get("vhost")
	}
	switch {
	case b.Exchange == "" && b.Key == "":
		return "must name an exchange, or a queue as the key of the default exchange"
	case b.VHost == "":
		return "must name a vhost, or have no vhost parameter for /"
	case !validBrokerName(b.Exchange) || !validBrokerName(b.Key) || !validBrokerName(b.VHost):
		return "must have an exchange, key and vhost of at most 255 bytes of UTF-8 each, without control characters"
	}
	return ""
}

func validBrokerName(name string) bool {
	return len(name) <= maxBrokerName && strings.ToValidUTF8(name, "") == name &&
		!strings.ContainsFunc(name, func(c rune) bool { return c < 0x20 || c == 0x7f })
}

func (b *Broker) nats(parts []string) (wrong string) {
	if len(parts) != 1 || parts[0] == "" {
		return "must have a path of one part, the subject: /jobs.mail"
	}
	b.Subject = parts[0]
	for token := range strings.SplitSeq(b.Subject, ".") {
		if token == "" || strings.ContainsAny(token, "*> ") || !validBrokerName(b.Subject) || !visible(b.Subject) {
			return "must have a subject of visible ASCII, at most 255 bytes, without wildcards (* and >) and empty parts between dots"
		}
	}
	if strings.HasPrefix(b.Subject, "$") || strings.HasPrefix(b.Subject, "_INBOX.") {
		return "must not have a subject of the system ($…, _INBOX)"
	}
	return ""
}

var kafkaTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

func (b *Broker) kafka(parts []string, query url.Values) (wrong string) {
	if len(parts) != 1 || len(parts[0]) > maxKafkaTopic || !kafkaTopic.MatchString(parts[0]) || parts[0] == "." || parts[0] == ".." {
		return "must have a path of one part, the topic: letters, digits, dots, dashes and underscores, at most 249"
	}
	b.Topic, b.SASL = parts[0], SASLPlain
	if query.Has("sasl") {
		b.SASL = query.Get("sasl")
	}
	if b.SASL != SASLPlain && b.SASL != SASLScram256 && b.SASL != SASLScram512 {
		return "must have sasl=" + SASLPlain + ", " + SASLScram256 + " or " + SASLScram512
	}
	return ""
}

// where checks the URL, and what goes with it.
func (p *PushRequest) where(r refusals) {
	isBroker := IsBrokerURL(p.URL)
	var wrong string
	if isBroker {
		_, wrong = BrokerURL(p.URL)
	} else {
		_, wrong = PushURL(p.URL)
	}
	if wrong == wrongScheme {
		wrong += ", or name a broker: amqps://, tls:// (NATS) or kafka+tls://"
	}
	r.check(wrong == "", "url", "%s", wrong)
	r.check(p.Settle == nil || isBroker, "settle", "is for brokers only: the answer to a call settles the job")
	r.words("settle", p.Settle, settleWords)
}
