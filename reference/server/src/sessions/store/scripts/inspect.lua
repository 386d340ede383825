return { 'ok', redis.call('GET', root .. 'mark'), redis.call('ZCOUNT', root .. 'sessions', '(' .. num(now), '+inf') }
