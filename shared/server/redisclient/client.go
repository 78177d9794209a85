// Package redisclient is the connection of the services to Redis, and the only package that imports the Redis library:
// a package that sees the library's interfaces takes the compiler two to three seconds.
//
// Each method returns an error where the library panics: it must not end the process, whatever the server sends.
package redisclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/forgequeue/forgequeue/shared/server/redisurl"
	"github.com/forgequeue/forgequeue/shared/server/resp"
)

// Options bound what the client does. A zero time is the library's default.
type Options struct {
	DialTimeout, ReadTimeout, WriteTimeout, PoolTimeout time.Duration
	// DialRetries are the attempts to connect; 0 is the library's default.
	DialRetries int
}

// Client is a connection to one Redis, a cluster, or what Sentinel says is the primary. No call is repeated.
type Client struct {
	inner any // a redis.UniversalClient: nothing that other packages see of Client says so, see library
}

// library is the library's client. A package that uses Client compiles what its fields, its methods' types and the
// methods that are inlined lead to: with the library's types these were 8,000 symbols each time.
func library(c *Client) redis.UniversalClient { return c.inner.(redis.UniversalClient) } //nolint:forcetypeassert // by Open

// Open makes a client; it does not dial yet. Package redisurl has the forms of a URL. Replies are checked before the
// library reads them.
func Open(url string, o Options) (*Client, error) {
	target, err := redisurl.Parse(url)
	if err != nil {
		return nil, err
	}
	quieten()
	dial := redis.NewDialer(&redis.Options{DialTimeout: o.DialTimeout, TLSConfig: target.TLS})
	return &Client{redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: target.Addrs, IsClusterMode: target.Cluster, MasterName: target.Master, DB: target.DB,
		Username: target.Username, Password: target.Password, TLSConfig: target.TLS,
		SentinelUsername: target.SentinelUsername, SentinelPassword: target.SentinelPassword,
		ContextTimeoutEnabled: true, DialTimeout: o.DialTimeout, DialerRetries: o.DialRetries,
		ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout, PoolTimeout: o.PoolTimeout, MaxRetries: -1,
		DisableIdentity:          true, // older servers answer it with an error, and a user may not be allowed it
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		Dialer: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return resp.Checked(conn), nil
		},
	})}, nil
}

// quieten keeps the library, which has one logger for the whole process, from writing to standard error while Redis is
// away: who calls it logs that once.
var quieten = sync.OnceFunc(func() { redis.SetLogger(debugLog{}) })

type debugLog struct{}

// Printf formats no text unless the level is enabled.
func (debugLog) Printf(ctx context.Context, format string, values ...any) {
	if logger := slog.Default(); logger.Enabled(ctx, slog.LevelDebug) {
		logger.DebugContext(ctx, "redis client", "message", fmt.Sprintf(format, values...))
	}
}

// fence makes a panic of the library an error.
func fence(err *error) {
	if failure := recover(); failure != nil { //nolint:revive // deferred by its callers
		*err = fmt.Errorf("redis client: panic: %v", failure)
	}
}

// Close ends the connections.
func (c *Client) Close() (err error) {
	defer fence(&err)
	return library(c).Close()
}

// OneNode says that the client has one server, not a cluster: a cluster counts only a node's own receivers.
//
//go:noinline
func (c *Client) OneNode() bool {
	_, one := library(c).(*redis.Client)
	return one
}

// FindMasters asks a cluster, in the background, which server has which keys: by itself the library asks once a minute,
// and not because a server is gone.
//
//go:noinline
func (c *Client) FindMasters(ctx context.Context) {
	if cluster, ok := library(c).(*redis.ClusterClient); ok {
		cluster.ReloadState(ctx)
	}
}

// Ping returns nil if the server answers.
func (c *Client) Ping(ctx context.Context) (err error) {
	defer fence(&err)
	return library(c).Ping(ctx).Err()
}

// Time is the server's clock.
func (c *Client) Time(ctx context.Context) (now time.Time, err error) {
	defer fence(&err)
	return library(c).Time(ctx).Result()
}

// Info is what INFO says in some sections, by the sections' titles.
func (c *Client) Info(ctx context.Context, sections ...string) (told map[string]map[string]string, err error) {
	defer fence(&err)
	return library(c).InfoMap(ctx, sections...).Result()
}

// Set stores a value for a time.
func (c *Client) Set(ctx context.Context, key, value string, life time.Duration) (err error) {
	defer fence(&err)
	return library(c).Set(ctx, key, value, life).Err()
}

// SetNew stores a value for a time, unless there is one already.
func (c *Client) SetNew(ctx context.Context, key, value string, life time.Duration) (stored bool, err error) {
	defer fence(&err)
	return library(c).SetNX(ctx, key, value, life).Result()
}

// Drop removes a value: by PEXPIRE, which the users of the services have, and not by DEL.
func (c *Client) Drop(ctx context.Context, key string) (err error) {
	defer fence(&err)
	return library(c).PExpire(ctx, key, 0).Err()
}

// Beat puts a member into a sorted set by the server's clock, removes those that did so longer than life ago, and counts
// the rest. The set expires with its youngest member.
func (c *Client) Beat(ctx context.Context, key, member string, life time.Duration) (members int64, err error) {
	defer fence(&err)
	now, err := library(c).Time(ctx).Result()
	if err != nil {
		return 0, err
	}
	var count *redis.IntCmd
	// One transaction, so that the key is never without a TTL.
	_, err = library(c).TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.ZAdd(ctx, key, redis.Z{Score: float64(now.UnixMilli()), Member: member})
		tx.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(now.Add(-life).UnixMilli(), 10))
		tx.PExpire(ctx, key, life)
		count = tx.ZCard(ctx, key)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return count.Val(), nil
}

// Leave removes a member that Beat has put there.
func (c *Client) Leave(ctx context.Context, key, member string) (err error) {
	defer fence(&err)
	return library(c).ZRem(ctx, key, member).Err()
}

// Publish sends a message, and gives the number of its receivers.
func (c *Client) Publish(ctx context.Context, channel, payload string) (receivers int64, err error) {
	defer fence(&err)
	return library(c).Publish(ctx, channel, payload).Result()
}

// Subscription is what Listen does with what it hears. It must not block.
type Subscription struct {
	Channels []string
	// Silence is how long the server may be silent before it gets a PING; after as long again without an answer the
	// subscription ends.
	Silence time.Duration
	// Begun, where given, is called for each channel when its messages begin to arrive.
	Begun func()
	// Message is called for each message.
	Message func(channel, payload string)
}

// Listen handles the messages of one subscription, until it breaks or ctx ends. It reads in the caller's goroutine: the
// library's own would end the process on an unexpected reply.
func (c *Client) Listen(ctx context.Context, s Subscription) (err error) {
	defer fence(&err)
	subscription := library(c).Subscribe(ctx, s.Channels...)
	closeOnce := sync.OnceFunc(func() { _ = subscription.Close() })
	defer closeOnce()
	// a read is not interrupted by its context
	stop := context.AfterFunc(ctx, closeOnce)
	defer stop()
	pinged := false // a ping is unanswered
	for {
		event, err := subscription.ReceiveTimeout(ctx, s.Silence)
		late, isNet := errors.AsType[net.Error](err)
		switch {
		case err == nil:
			pinged = false
			s.handle(event)
		case isNet && late.Timeout() && !pinged && ctx.Err() == nil:
			pinged = true
			if err := subscription.Ping(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func (s *Subscription) handle(event any) {
	switch event := event.(type) {
	case *redis.Subscription:
		if s.Begun != nil {
			s.Begun()
		}
	case *redis.Message:
		s.Message(event.Channel, event.Payload)
	}
}
