return { 'ok', redis.call('GET', root .. 'mark'), redis.call('ZCOUNT', root .. 'sessions', '(' .. integer(now), '+inf') }
