package invariants

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// RedisWithoutTTL lists the keys that never end. The URL is redis://host:port or unix:///path.
func RedisWithoutTTL(ctx context.Context, address string) ([]string, error) {
	keys, err := RedisAsk(ctx, address, "KEYS", "*")
	if err != nil {
		return nil, err
	}
	var endless []string
	for _, key := range keys {
		ttl, err := RedisAsk(ctx, address, "TTL", key)
		if err != nil {
			return nil, err
		}
		if ttl[0] == "-1" {
			endless = append(endless, key)
		}
	}
	return endless, nil
}

// RedisDo runs one command on a Redis, as in RedisDo(ctx, url, "FLUSHALL").
func RedisDo(ctx context.Context, address string, words ...string) error {
	_, err := RedisAsk(ctx, address, words...)
	return err
}

// RedisAsk is RedisDo, and gives the answer, flat.
func RedisAsk(ctx context.Context, address string, words ...string) ([]string, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	options.Protocol, options.DisableIdentity = 2, true
	client := redis.NewClient(options)
	defer func() { _ = client.Close() }()
	command := make([]any, len(words))
	for i, word := range words {
		command[i] = word
	}
	answer, err := client.Do(ctx, command...).Result()
	return flat(answer), err
}

func flat(answer any) (all []string) {
	list, ok := answer.([]any)
	if !ok {
		return []string{fmt.Sprint(answer)}
	}
	for _, one := range list {
		all = append(all, flat(one)...)
	}
	return all
}
