redis.call('SETNX', root .. 'mark', ARGV[1])
return redis.call('GET', root .. 'mark')
